// The same headers and libraries from C++17.
#include <moemark/moemark.h>

#include <string>

int main() {
  mt_config cfg = mt_config_default();
  return cfg.ranks >= 1 && std::string(mk_op_name(MK_OP_add)) == "add" ? 0 : 1;
}
