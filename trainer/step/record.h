/* What a run tells the outside: one JSON object a line in <out>/records.jsonl, written by rank 0 and flushed at once.
 * The suite reads these lines and nothing else. Readers ignore unknown keys; writers never rename one.
 *
 * {"schema":"moemark/record/1","type":"start","ranks":2,"device":"cpu","describe":"...",
 *  "kind":"measured|simulated|emulated","kernel":"native|widened|fp32","mxfp8":"attention mlp ep scale rceil",
 *  "isa":"...","library":"oneDNN 2.6.3","threads":1,"params_total":N,"params_active":N,"flop_token":F,
 *  "flops_convention":"olmo_core_3_ddp","planned_bytes":{"params":..,"grads":..,"optim":..,"activations":..,"comm":..,
 *  "workspace":..},"planned_bytes_ranks":{"params":[..],..},"resumed_step":0}
 *                          after planning, before the first step; a resumed run whose file is there appends to it, from
 *                          a start of its own: an end before that start is the earlier run's, and of a step or
 *                          evaluation that stands twice, because it was done again, the later line counts.
 *                          planned_bytes: of the rank that needs most, as --plan prints; ..._ranks: of every rank, in
 *                          rank order
 * {"type":"step","step":1,"time_s":..,"time_median_s":..,"compute_max_s":..,"compute_median_s":..,"tokens":..,
 *  "loss":..,"ce":..,"z":..,"lb_mean":..,"rz":..,"grad_norm":..,"lr":..,"skipped":0,"drop_rate":..,"imbalance":..,
 *  "host_waits":..,"wire_bytes":..,"device_allocs":..,"peak_bytes_ranks":{"params":[..],..}}
 *                          one a step; time_s = max over ranks;
 *                          loss = ce + z + weighted lb + weighted rz; lb_mean = unweighted, mean over MoE layers;
 *                          peak_bytes_ranks: so far, by category and rank. All device memory is taken before the
 *                          first step, so that ranks tell each other their peaks then, and again wherever they meet
 *                          outside a step: before an evaluation or a checkpoint, and at the end
 * {"type":"eval","step":10,"time_s":..,"tokens":..,"loss":..}               held-out cross-entropy, nat per token;
 *                          time_s since the first step began
 * {"type":"op","name":"linear_fwd","calls":..,"time_s":..,"bound_s":..,"flops":..,"bytes":..}   profile mode, rank 0
 *                          bound_s, flops, bytes: null (and the end's bound_s) where a call's rows stand on a device
 *                          whose memory the host cannot read
 * {"type":"end","status":"ok|oom|nonfinite|config|io|format|comm|timeout|interrupted|error","code":0,"message":"",
 *  "steps":..,"time_s":..,"peak_bytes":{same categories},"peak_total_bytes":..,"peak_rank":..,
 *  "reserved_bytes":..(VmHWM, max over ranks),"host_waits_step":..,"wire_bytes_step":..,
 *  "bound_s":..(of one step, profile mode),
 *  "rank_spread_loss":..(largest minus smallest last loss over ranks; null when the run failed),
 *  "peak_bytes_ranks":{"params":[..],..},"peak_total_bytes_ranks":[..],"reserved_bytes_ranks":[..]}  last line of a
 *                          run; a file without one after its last start belongs to a run that was killed. peak_bytes,
 *                          peak_total_bytes: of peak_rank, the rank with the largest peak in total. A run that failed
 *                          says of the other ranks what they told last; 0 and no ranks where it failed before it had
 *                          any memory */
#ifndef TRAINER_STEP_RECORD_H
#define TRAINER_STEP_RECORD_H

#include "kernels/ops/ops.h"
#include "trainer/launch/config.h"

typedef struct mt_recorder mt_recorder;

/* Device memory of one rank by category, and the peak of the process (VmHWM). Only 64-bit words: ranks send it as it
 * is (MT_MEMORY_WORDS of optim.h). */
typedef struct mt_rank_memory {
  int64_t planned_bytes[MK_MEM_COUNT], peak_bytes[MK_MEM_COUNT];
  int64_t peak_total_bytes, reserved_bytes;
} mt_rank_memory;

/* Of all ranks; ranks 0 while nothing is known. */
typedef struct mt_job_memory {
  int ranks;
  mt_rank_memory *rank; /* [ranks] */
} mt_job_memory;

/* What the start line says; filled by the step loop after planning. */
typedef struct mt_run_info {
  int ranks;
  mk_device_info device;
  int64_t params_total, params_active;
  double flop_token; /* Olmo-core 3 convention */
  mt_job_memory memory;
  int64_t resumed_step; /* steps that an earlier run has done */
} mt_run_info;

typedef struct mt_step_times {
  double time_s, time_median_s; /* over ranks: max, median */
  double compute_max_s, compute_median_s;
  int64_t host_waits, wire_bytes, device_allocs;
  mt_job_memory memory;
} mt_step_times;

typedef struct mt_run_end {
  mk_status status;
  int exit_code;
  const char *message;
  int64_t steps;
  double time_s;
  mt_job_memory memory;
  double host_waits_step, wire_bytes_step, bound_s, rank_spread_loss;
} mt_run_end;

/* Creates <folder>/records.jsonl (exclusively) and writes every line below. append: goes on behind the last whole line
 * of a file that is there. folder NULL: records go nowhere. */
mk_status mt_recorder_create(mk_context *ctx, const char *folder, bool append, mt_recorder **out);
mk_status mt_recorder_start(mt_recorder *rec, const mt_config *cfg, const mt_run_info *info);
mk_status mt_recorder_step(mt_recorder *rec, const mt_config *cfg, const mk_step_log *log, const mt_step_times *times);
mk_status mt_recorder_eval(mt_recorder *rec, int64_t step, double time_s, int64_t tokens, double loss);
mk_status mt_recorder_op(mt_recorder *rec, const char *name, const mk_op_stats *stats);
mk_status mt_recorder_end(mt_recorder *rec, const mt_run_end *end);
void mt_recorder_destroy(mt_recorder *rec);

#endif
