/* JSON lines into records.jsonl. A line is built in one fixed buffer and written with one call, so that the step loop
 * allocates nothing and a killed run leaves whole lines. */
#include "trainer/step/record.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/heap.h"
#include "trainer/comm/comm.h"

/* Beside the rest, a line has a number for each rank: of every category, and two more at the end. */
enum {
  REST_BYTES = 8192,
  NUMBER_BYTES = 20,
  LINE_BYTES = REST_BYTES + (MK_MEM_COUNT + 2) * MT_MAX_RANKS * NUMBER_BYTES
};

struct mt_recorder {
  mk_context *ctx;
  char *path;
  int fd;            /* -1: records go nowhere */
  off_t whole_bytes; /* of the file: complete lines */
  int used;
  char line[LINE_BYTES];
};

static void put(mt_recorder *rec, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(mt_recorder *rec, const char *fmt, ...) {
  va_list args;
  if (rec->fd < 0) return;
  va_start(args, fmt);
  int wrote = vsnprintf(rec->line + rec->used, (size_t)(LINE_BYTES - rec->used), fmt, args);
  va_end(args);
  rec->used = wrote < LINE_BYTES - rec->used ? rec->used + wrote : LINE_BYTES - 1;
}

static void put_separator(mt_recorder *rec) {
  char last = rec->used > 0 ? rec->line[rec->used - 1] : '{';
  if (last != '{') put(rec, ",");
}

static void put_text(mt_recorder *rec, const char *key, const char *value) {
  put_separator(rec);
  put(rec, "\"%s\":\"", key);
  for (const char *c = value; *c != '\0'; c++) {
    unsigned char u = (unsigned char)*c;
    if (u == '"' || u == '\\') {
      put(rec, "\\%c", u);
    } else if (u < 0x20) {
      put(rec, "\\u%04x", u);
    } else {
      put(rec, "%c", u);
    }
  }
  put(rec, "\"");
}

static void put_integer(mt_recorder *rec, const char *key, int64_t value) {
  put_separator(rec);
  put(rec, "\"%s\":%lld", key, (long long)value);
}

/* JSON knows no NaN or infinity. */
static void put_number(mt_recorder *rec, const char *key, double value) {
  put_separator(rec);
  if (isfinite(value)) {
    put(rec, "\"%s\":%.17g", key, value);
  } else {
    put(rec, "\"%s\":null", key);
  }
}

static void put_memory(mt_recorder *rec, const char *key, const int64_t bytes[MK_MEM_COUNT]) {
  put_separator(rec);
  put(rec, "\"%s\":{", key);
  for (int i = 0; i < MK_MEM_COUNT; i++)
    put_integer(rec, mk_memory_name((mk_memory)i), bytes[i]);
  put(rec, "}");
}

/* The word of every rank's memory that lies `offset` bytes from its start. */
static void put_ranks(mt_recorder *rec, const char *key, const mt_job_memory *memory, size_t offset) {
  put_separator(rec);
  put(rec, "\"%s\":[", key);
  for (int r = 0; r < memory->ranks; r++) {
    const char *word = (const char *)&memory->rank[r] + offset;
    put(rec, "%s%lld", r == 0 ? "" : ",", (long long)*(const int64_t *)word);
  }
  put(rec, "]");
}

/* The same for each category, from the first one's. */
static void put_memory_ranks(mt_recorder *rec, const char *key, const mt_job_memory *memory, size_t offset) {
  put_separator(rec);
  put(rec, "\"%s\":{", key);
  for (int i = 0; i < MK_MEM_COUNT; i++)
    put_ranks(rec, mk_memory_name((mk_memory)i), memory, offset + (size_t)i * sizeof(int64_t));
  put(rec, "}");
}

static int64_t planned_total(const mt_rank_memory *m) {
  int64_t total = 0;
  for (int i = 0; i < MK_MEM_COUNT; i++)
    total += m->planned_bytes[i];
  return total;
}

/* The first rank of those that need most; 0 where nothing is known. */
static int fullest_planned(const mt_job_memory *memory) {
  int most = 0;
  for (int r = 1; r < memory->ranks; r++)
    if (planned_total(&memory->rank[r]) > planned_total(&memory->rank[most])) most = r;
  return most;
}

static int fullest(const mt_job_memory *memory) {
  int most = 0;
  for (int r = 1; r < memory->ranks; r++)
    if (memory->rank[r].peak_total_bytes > memory->rank[most].peak_total_bytes) most = r;
  return most;
}

static int64_t most_reserved(const mt_job_memory *memory) {
  int64_t most = 0;
  for (int r = 0; r < memory->ranks; r++)
    if (memory->rank[r].reserved_bytes > most) most = memory->rank[r].reserved_bytes;
  return most;
}

static void begin(mt_recorder *rec, const char *type) {
  rec->used = 0;
  put(rec, "{");
  put_text(rec, "schema", "moemark/record/1");
  put_text(rec, "type", type);
}

static mk_status end(mt_recorder *rec) {
  put(rec, "}\n");
  if (rec->fd < 0) return MK_OK;
  ssize_t wrote = write(rec->fd, rec->line, (size_t)rec->used);
  if (wrote == rec->used) {
    rec->whole_bytes += wrote;
    return MK_OK;
  }
  const char *cause = wrote < 0 ? strerror(errno) : "disk full";
  if (wrote > 0 && ftruncate(rec->fd, rec->whole_bytes) == 0) lseek(rec->fd, rec->whole_bytes, SEEK_SET);
  return MK_FAIL(rec->ctx, MK_ERR_OUTPUT, "%s: cannot write a record: %s", rec->path, cause);
}

/* A run that was killed may have left half a line at the end. */
static mk_status seek_whole_lines(mt_recorder *rec) {
  off_t size = lseek(rec->fd, 0, SEEK_END), whole = size;
  char byte = 0;
  while (whole > 0 && pread(rec->fd, &byte, 1, whole - 1) == 1 && byte != '\n')
    whole -= 1;
  rec->whole_bytes = whole;
  MK_CHECK(rec->ctx, size >= 0 && ftruncate(rec->fd, whole) == 0 && lseek(rec->fd, whole, SEEK_SET) == whole,
           MK_ERR_OUTPUT, "%s: cannot append: %s", rec->path, strerror(errno));
  return MK_OK;
}

mk_status mt_recorder_create(mk_context *ctx, const char *folder, bool append, mt_recorder **out) {
  mk_status st = MK_OK;
  mt_recorder *rec = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *rec, &rec));
  rec->ctx = ctx;
  rec->fd = -1;
  if (folder != NULL) {
    MK_TRY_GOTO(ctx, mk_heap_printf(ctx, &rec->path, "%s/records.jsonl", folder), out);
    rec->fd = open(rec->path, O_RDWR | O_CREAT | O_CLOEXEC | (append ? 0 : O_EXCL), 0644);
    MK_CHECK_GOTO(ctx, rec->fd >= 0, MK_ERR_OUTPUT, out, "%s: cannot create: %s%s", rec->path, strerror(errno),
                  errno == EEXIST ? "; records are never overwritten, give another --out folder" : "");
  }
  if (rec->fd >= 0 && append) MK_TRY_GOTO(ctx, seek_whole_lines(rec), out);
  *out = rec;
  rec = NULL;
out:
  mt_recorder_destroy(rec);
  return st;
}

void mt_recorder_destroy(mt_recorder *rec) {
  if (rec == NULL) return;
  if (rec->fd >= 0) close(rec->fd);
  mk_heap_free(rec->ctx, rec->path);
  mk_heap_free(rec->ctx, rec);
}

/* Which parts, and the scale rule. */
static void put_mxfp8(mt_recorder *rec, const mt_config *cfg) {
  char text[64];
  snprintf(text, sizeof text, "%s%s%s scale %s", cfg->mxfp8_attention ? "attention " : "", cfg->mxfp8_mlp ? "mlp " : "",
           cfg->mxfp8_ep ? "ep" : "", cfg->mxfp8_scale == MK_MXFP8_RCEIL ? "rceil" : "floor");
  put_text(rec, "mxfp8", text);
}

mk_status mt_recorder_start(mt_recorder *rec, const mt_config *cfg, const mt_run_info *info) {
  begin(rec, "start");
  put_integer(rec, "ranks", info->ranks);
  put_text(rec, "device", cfg->device);
  put_text(rec, "describe", info->device.text);
  bool bf16 = cfg->precision == MT_BF16 || cfg->precision == MT_MXFP8;
  put_text(rec, "kind", mt_config_kind(cfg));
  put_text(rec, "kernel", bf16 ? info->device.kernel : "fp32");
  if (cfg->precision == MT_MXFP8) put_mxfp8(rec, cfg);
  put_text(rec, "isa", info->device.isa);
  put_text(rec, "library", info->device.library);
  put_integer(rec, "threads", info->device.threads);
  put_integer(rec, "params_total", info->params_total);
  put_integer(rec, "params_active", info->params_active);
  put_number(rec, "flop_token", info->flop_token);
  put_text(rec, "flops_convention", "olmo_core_3_ddp");
  put_memory(rec, "planned_bytes", info->memory.rank[fullest_planned(&info->memory)].planned_bytes);
  put_memory_ranks(rec, "planned_bytes_ranks", &info->memory, offsetof(mt_rank_memory, planned_bytes));
  put_integer(rec, "resumed_step", info->resumed_step);
  return end(rec);
}

mk_status mt_recorder_step(mt_recorder *rec, const mt_config *cfg, const mk_step_log *log, const mt_step_times *times) {
  const double *sum = log->sum;
  int64_t moe = mt_config_moe_layers(cfg);
  double lb = sum[MK_SUM_LB], rz = sum[MK_SUM_RZ];
  begin(rec, "step");
  put_integer(rec, "step", log->step);
  put_number(rec, "time_s", times->time_s);
  put_number(rec, "time_median_s", times->time_median_s);
  put_number(rec, "compute_max_s", times->compute_max_s);
  put_number(rec, "compute_median_s", times->compute_median_s);
  put_integer(rec, "tokens", cfg->global_tokens);
  put_number(rec, "loss", sum[MK_SUM_CE] + sum[MK_SUM_Z] + cfg->lb_weight * lb + cfg->router_z_weight * rz);
  put_number(rec, "ce", sum[MK_SUM_CE]);
  put_number(rec, "z", sum[MK_SUM_Z]);
  put_number(rec, "lb_mean", moe == 0 ? NAN : cfg->lb_def == MK_LB_HF ? lb : lb / (double)moe);
  put_number(rec, "rz", moe == 0 ? NAN : rz);
  put_number(rec, "grad_norm", log->grad_norm);
  put_number(rec, "lr", log->lr);
  put_integer(rec, "skipped", log->skipped);
  put_number(rec, "drop_rate", sum[MK_SUM_ROUTED] > 0 ? sum[MK_SUM_DROPPED] / sum[MK_SUM_ROUTED] : 0);
  put_number(rec, "imbalance", moe == 0 ? NAN : log->imbalance);
  put_integer(rec, "host_waits", times->host_waits);
  put_integer(rec, "wire_bytes", times->wire_bytes);
  put_integer(rec, "device_allocs", times->device_allocs);
  put_memory_ranks(rec, "peak_bytes_ranks", &times->memory, offsetof(mt_rank_memory, peak_bytes));
  return end(rec);
}

mk_status mt_recorder_eval(mt_recorder *rec, int64_t step, double time_s, int64_t tokens, double loss) {
  begin(rec, "eval");
  put_integer(rec, "step", step);
  put_number(rec, "time_s", time_s);
  put_integer(rec, "tokens", tokens);
  put_number(rec, "loss", loss);
  return end(rec);
}

mk_status mt_recorder_op(mt_recorder *rec, const char *name, const mk_op_stats *stats) {
  begin(rec, "op");
  put_text(rec, "name", name);
  put_integer(rec, "calls", stats->calls);
  put_number(rec, "time_s", stats->seconds);
  put_number(rec, "bound_s", stats->bound_s);
  put_number(rec, "flops", stats->flops);
  put_number(rec, "bytes", stats->bytes);
  return end(rec);
}

static const char *status_word(mk_status status) {
  switch (status) {
    case MK_OK:
      return "ok";
    case MK_ERR_MEMORY:
      return "oom";
    case MK_ERR_NUMERIC:
      return "nonfinite";
    case MK_ERR_ARG:
    case MK_ERR_CONFIG:
    case MK_ERR_UNSUPPORTED:
      return "config";
    case MK_ERR_IO:
    case MK_ERR_OUTPUT:
      return "io";
    case MK_ERR_FORMAT:
      return "format";
    case MK_ERR_COMM:
      return "comm";
    case MK_ERR_TIMEOUT:
      return "timeout";
    case MK_ERR_INTERRUPTED:
      return "interrupted";
    default:
      return "error";
  }
}

mk_status mt_recorder_end(mt_recorder *rec, const mt_run_end *e) {
  const mt_rank_memory none = {0}, *most = e->memory.ranks > 0 ? &e->memory.rank[fullest(&e->memory)] : &none;
  begin(rec, "end");
  put_text(rec, "status", status_word(e->status));
  put_integer(rec, "code", e->exit_code);
  put_text(rec, "message", e->message);
  put_integer(rec, "steps", e->steps);
  put_number(rec, "time_s", e->time_s);
  put_memory(rec, "peak_bytes", most->peak_bytes);
  put_integer(rec, "peak_total_bytes", most->peak_total_bytes);
  put_integer(rec, "peak_rank", fullest(&e->memory));
  put_integer(rec, "reserved_bytes", most_reserved(&e->memory));
  put_number(rec, "host_waits_step", e->host_waits_step);
  put_number(rec, "wire_bytes_step", e->wire_bytes_step);
  put_number(rec, "bound_s", e->bound_s);
  put_number(rec, "rank_spread_loss", e->rank_spread_loss);
  put_memory_ranks(rec, "peak_bytes_ranks", &e->memory, offsetof(mt_rank_memory, peak_bytes));
  put_ranks(rec, "peak_total_bytes_ranks", &e->memory, offsetof(mt_rank_memory, peak_total_bytes));
  put_ranks(rec, "reserved_bytes_ranks", &e->memory, offsetof(mt_rank_memory, reserved_bytes));
  return end(rec);
}
