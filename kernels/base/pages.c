/* Anonymous mappings. Pages are made resident at once with MADV_POPULATE_WRITE (Linux 5.14), or by touching each page
 * where the kernel does not know it. Pages land on the NUMA node of the calling thread: bind ranks, not threads. */
#include "kernels/base/pages.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernels/base/text.h"

enum { LARGE_BYTES = 64 << 20 };    /* blocks from here on are weighed against what the machine has left */
enum { LIBRARY_BYTES = 128 << 20 }; /* addresses that libraries need once all blocks are there */
enum { HUGE_BYTES = 2 << 20, POPULATE_WRITE = 23 /* MADV_POPULATE_WRITE, absent from older headers */ };

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

static size_t mapped_bytes(size_t bytes) { return round_up(bytes, bytes >= HUGE_BYTES ? HUGE_BYTES : page_bytes()); }

static void *map_anonymous(size_t bytes) {
  void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return block == MAP_FAILED ? NULL : block;
}

/* Maps one huge page more than asked and gives back both ends, so that the rest starts on a huge page. */
static void *map_huge(size_t bytes) {
  char *raw = map_anonymous(bytes + HUGE_BYTES);
  if (raw == NULL) return NULL;
  size_t head = round_up((size_t)(uintptr_t)raw, HUGE_BYTES) - (size_t)(uintptr_t)raw;
  if (head > 0) munmap(raw, head);
  if (head < HUGE_BYTES) munmap(raw + head + bytes, HUGE_BYTES - head);
  (void)madvise(raw + head, bytes, MADV_HUGEPAGE); /* a hint: refusal costs speed only */
  return raw + head;
}

static bool make_resident(char *block, size_t bytes) {
  if (madvise(block, bytes, POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
  for (size_t at = 0; at < bytes; at += page_bytes())
    ((volatile char *)block)[at] = ((volatile char *)block)[at];
  return true;
}

/* First number of the line that begins with `label` ("" = the first line), or `otherwise`. */
static double number_in(const char *path, const char *label, double otherwise) {
  char line[256], digits[32];
  double value = otherwise;
  FILE *file = fopen(path, "re");
  if (file == NULL) return otherwise;
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, label, strlen(label)) != 0) continue;
    const char *number = line + strcspn(line, "0123456789");
    snprintf(digits, sizeof digits, "%.*s", (int)strspn(number, "0123456789"), number);
    if (!mk_text_number(digits, true, &value)) value = otherwise;
    break;
  }
  fclose(file);
  return value;
}

double mk_memory_available(const mk_memory_files *files) {
  double machine = 1024 * number_in(files->machine, "MemAvailable:", HUGE_VAL);
  double limit = number_in(files->limit, "", HUGE_VAL); /* "max": no number */
  double kept = number_in(files->parts, "inactive_file ", 0) + number_in(files->parts, "active_file ", 0);
  double used = number_in(files->used, "", 0) - kept;
  double left = limit - (used > 0 ? used : 0);
  return left < machine ? left : machine;
}

static double available_bytes(void) {
  static const mk_memory_files files = {.machine = "/proc/meminfo",
                                        .limit = "/sys/fs/cgroup/memory.max",
                                        .used = "/sys/fs/cgroup/memory.current",
                                        .parts = "/sys/fs/cgroup/memory.stat"};
  return mk_memory_available(&files);
}

/* Whether a limit on addresses (ulimit -v) leaves room for the block and, beside it, for the code that libraries
 * generate later: oneDNN 2.7 does not survive a refusal of that memory. */
static bool addresses_left(size_t bytes) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  double used = (double)page_bytes() * number_in("/proc/self/statm", "", 0);
  return used + (double)bytes + LIBRARY_BYTES <= (double)limit.rlim_cur;
}

size_t mk_pages_round(size_t bytes) { return round_up(bytes, page_bytes()); }

bool mk_pages_populate(void *block, size_t bytes) {
  uintptr_t first = (uintptr_t)block / page_bytes() * page_bytes();
  return bytes == 0 || make_resident((char *)first, round_up((uintptr_t)block + bytes, page_bytes()) - first);
}

mk_status mk_pages_alloc(mk_context *ctx, size_t bytes, void **out) {
  ctx->heap_calls += 1;
  bool refused = ctx->heap_fail_at != 0 && ctx->heap_calls == ctx->heap_fail_at;
  size_t mapped = mapped_bytes(bytes);
  void *block = NULL;
  if (bytes >= LARGE_BYTES && (double)bytes > available_bytes()) refused = true;
  bool limited = !addresses_left(bytes);
  if (!refused && !limited && mapped >= bytes) block = bytes >= HUGE_BYTES ? map_huge(mapped) : map_anonymous(mapped);
  if (block != NULL && !make_resident(block, mapped)) {
    munmap(block, mapped);
    block = NULL;
  }
  if (block == NULL) {
    return MK_FAIL_CALLER(ctx, MK_ERR_MEMORY,
                          "out of memory: %s could not give %zu bytes (%.1f MiB) for one block; use a smaller model or "
                          "rank_tokens, fewer threads, or more ranks with ep or dist_opt",
                          limited ? "the limit on addresses (ulimit -v)" : "this machine", bytes,
                          (double)bytes / 0x1p20);
  }
  ctx->heap_live += 1;
  *out = block;
  return MK_OK;
}

void mk_pages_free(mk_context *ctx, void *block, size_t bytes) {
  if (block == NULL) return;
  ctx->heap_live -= 1;
  munmap(block, mapped_bytes(bytes));
}

mk_status mk_pages_protect(mk_context *ctx, void *block, size_t bytes, bool accessible) {
  int failed = mprotect(block, mapped_bytes(bytes), accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
  MK_CHECK(ctx, failed == 0, MK_ERR_DEVICE, "mprotect of a device block of %zu bytes failed: %s", bytes,
           strerror(errno));
  return MK_OK;
}
