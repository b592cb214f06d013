/* A program against the installed tree: three numbers through an op of the cpu device, and the trainer's defaults. */
#include <moemark/moemark.h>

int main(void) {
  mk_context ctx = {.rank = 0};
  mk_device_config wanted = {.name = "cpu", .threads = 1};
  mk_device *dev = NULL;
  mk_stream *stream = NULL;
  mk_tensor x = mk_tensor_1d(MK_F32, 3), y = x;
  float in[3] = {1, 2, 3}, out[3] = {0, 0, 0};
  mk_status st = mk_device_create(&ctx, &wanted, &dev);
  if (st == MK_OK) st = mk_stream_create(dev, "main", &stream);
  if (st == MK_OK) st = mk_device_alloc(dev, MK_MEM_WORKSPACE, sizeof in, &x.data);
  if (st == MK_OK) st = mk_device_alloc(dev, MK_MEM_WORKSPACE, sizeof in, &y.data);
  if (st == MK_OK) st = mk_copy_h2d(stream, &x, in);
  mk_add_args args = {.a = x, .b = x, .y = y};
  if (st == MK_OK) st = mk_add(stream, &args);
  if (st == MK_OK) st = mk_copy_d2h(stream, out, &y);
  if (st == MK_OK) st = mk_stream_sync(stream, false);
  mt_config cfg = mt_config_default();
  if (st == MK_OK) st = mt_config_check(&ctx, &cfg);
  if (st != MK_OK) mk_log_error(&ctx, true);
  return st == MK_OK && out[0] == 2 && out[1] == 4 && out[2] == 6 ? 0 : 1;
}
