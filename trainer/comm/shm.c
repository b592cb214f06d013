/* Shared memory appears page by page as it is touched, so a mapping that does not fit ends in SIGBUS long after it was
 * made; containers often have 64 MiB only. */
#include "trainer/comm/shm.h"

#include <stdint.h>
#include <sys/statvfs.h>

size_t mt_shm_free_bytes(void) {
  struct statvfs fs;
  if (statvfs("/dev/shm", &fs) != 0) return SIZE_MAX;
  return (size_t)fs.f_bavail * fs.f_frsize;
}

mk_status mt_shm_fail(mk_context *ctx, const char *what, size_t needed_bytes, size_t free_bytes) {
  return MK_FAIL(ctx, MK_ERR_MEMORY,
                 "%s: /dev/shm has %zu bytes free but %zu are needed; enlarge it (mount -o remount,size=... /dev/shm; "
                 "containers: --shm-size) or remove stale files there",
                 what, free_bytes, needed_bytes);
}

mk_status mt_shm_check(mk_context *ctx, const char *what, size_t needed_bytes, size_t free_bytes) {
  return free_bytes >= needed_bytes ? MK_OK : mt_shm_fail(ctx, what, needed_bytes, free_bytes);
}
