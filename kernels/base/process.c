/* open() gives the lowest free number, so the three are looked at in their order. */
#include "kernels/base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

void mk_process_init(void) {
  static const int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY}; /* reading 0 and writing 1 fail; messages on 2 are lost */
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", modes[fd]);
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}
