/* The lists as text, one table each: what a reader of the files sees is what stands here. "@factors" is where the
 * study's own columns go. */
#include "suite/record/schema.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
  const char *name; /* NULL: no schema column */
  const char *columns;
  const char *needed;  /* without them a row means nothing; later columns may be missing in older files */
  const char *numbers; /* what judges and reports reckon with */
} SCHEMA[MS_CSV_KINDS] = {
    [MS_CSV_LAUNCHES] = {"moemark/launches/1", "schema,order,case,launch,status,code,wall_s,tok_s,folder,message",
                         "case,launch,status", "order,launch,code,wall_s,tok_s"},
    [MS_CSV_RUNS] =
        {"moemark/runs/1",
         "schema,run_id,study,scale,case,kind,system,device_kind,devices,ranks,nodes,@factors,model,shard,ep,"
         "ep_transport,pp,pp_schedule,recompute,precision,kernel,routing,capacity_factor,lb_def,launch,order,status,"
         "seed,start_utc,warmup_steps,steps,time_s,tokens,tok_s,tok_s_gpu,step_ms_p50,step_ms_p95,step_ms_p99,"
         "flop_token,mfu_olmo3_pct,mfu_peak_flops,bound_pct,peak_mem_gib,mem_params_gib,mem_grads_gib,mem_optim_gib,"
         "mem_act_gib,mem_comm_gib,mem_work_gib,mem_reserved_gib,wire_bytes_step,host_waits_step,loss_last,drop_rate,"
         "imbalance,straggler,not_steady,throttled,calibration,comparability,nodelist,seq_len,rank_tokens,"
         "global_tokens,pp_chunks,grad_reduce,fsdp_shard_ranks,fsdp_reshard,fsdp_reduce,recompute_rule,mxfp8_attention,"
         "mxfp8_mlp,mxfp8_ep,mxfp8_scale,capacity_scope",
         "case,launch,status",
         "launch,time_s,tokens,tok_s,tok_s_gpu,step_ms_p50,step_ms_p95,step_ms_p99,flop_token,peak_mem_gib,loss_last,"
         "drop_rate,imbalance"},
    [MS_CSV_STEPS] = {"moemark/steps/1",
                      "schema,run_id,case,launch,step,rank_max_ms,rank_median_ms,tokens,loss,ce,z,lb_mean,rz,"
                      "grad_norm,lr,skipped,drop_rate,imbalance",
                      "case,launch,step", "launch,step,rank_max_ms,rank_median_ms,tokens,loss,ce,grad_norm,drop_rate"},
    [MS_CSV_EVALS] = {"moemark/evals/1", "schema,run_id,case,launch,step,time_s,tokens,loss", "case,launch,step,loss",
                      "launch,step,time_s,tokens,loss"},
    [MS_CSV_SUMMARY] =
        {"moemark/summary/1",
         "schema,study,case,metric,unit,better,kind,n,n_failed,median,ci_lo,ci_hi,ci_pct,min,max,"
         "mad_pct,stat,predicted,ref,ref_kind,ref_ratio,bound,bound_pct,verdict,gate,delta_pct,outliers,reason",
         "case,metric,n,median,verdict",
         "n,n_failed,median,ci_lo,ci_hi,min,max,mad_pct,predicted,ref,ref_ratio,bound,bound_pct,delta_pct"},
    [MS_CSV_CONTRASTS] = {"moemark/contrasts/1",
                          "schema,contrast,factor,base,case,base_case,metric,better,kind,n,n_base,ratio,lo,hi,"
                          "published_ratio,label",
                          "case,base_case,metric,ratio", "n,n_base,ratio,lo,hi,published_ratio"},
    [MS_CSV_CLAIMS] = {"moemark/claims/1", "schema,claim,published,value,lo,hi,accept,verdict,predicted,n,says,reason",
                       "claim,verdict", "published,value,lo,hi,predicted,n"},
    [MS_CSV_FLOPS] = {"moemark/flops/1", "schema,case,convention,flop_token,mfu_pct", "case,convention,flop_token",
                      "flop_token,mfu_pct"},
    [MS_CSV_ACCEPTED] = {NULL,
                         "case,metric,unit,better,n,median,ci_lo,ci_hi,delta,commit,date_utc,run_id,accepted_by,"
                         "expect",
                         "case,metric,median,run_id", "n,median,ci_lo,ci_hi,delta"},
};

enum { COLUMNS_MAX = 128, LIST_BYTES = 2048 };

/* A factor named like a fixed column (precision, ep, ...) shares that column. */
static bool is_fixed(ms_csv_kind kind, const char *name) {
  const char *found = SCHEMA[kind].columns;
  size_t bytes = strlen(name);
  while ((found = strstr(found, name)) != NULL) {
    bool starts = found == SCHEMA[kind].columns || found[-1] == ',';
    if (starts && (found[bytes] == ',' || found[bytes] == '\0')) return true;
    found += bytes;
  }
  return false;
}

const char *ms_schema_name(ms_csv_kind kind) { return SCHEMA[kind].name; }

/* The names in "a,b,c", which lie in `text`; returns how many there are. */
static int split(const char *list, char text[LIST_BYTES], const char *name[COLUMNS_MAX]) {
  int count = 0;
  char *rest = NULL;
  snprintf(text, LIST_BYTES, "%s", list);
  for (char *at = strtok_r(text, ",", &rest); at != NULL && count < COLUMNS_MAX; at = strtok_r(NULL, ",", &rest))
    name[count++] = at;
  return count;
}

mk_status ms_schema_table(mk_context *ctx, ms_csv_kind kind, const char *const *factors, int n_factors, ms_csv **out) {
  char text[LIST_BYTES];
  const char *fixed[COLUMNS_MAX], *columns[COLUMNS_MAX];
  int n_fixed = split(SCHEMA[kind].columns, text, fixed), count = 0;
  for (int at = 0; at < n_fixed; at++) {
    bool place = strcmp(fixed[at], "@factors") == 0;
    MK_CHECK(ctx, count + (place ? n_factors : 1) <= COLUMNS_MAX, MK_ERR_ARG, "more than %d columns", COLUMNS_MAX);
    if (!place) columns[count++] = fixed[at];
    for (int i = 0; place && i < n_factors; i++) {
      if (!is_fixed(kind, factors[i])) columns[count++] = factors[i];
    }
  }
  return ms_csv_create(ctx, columns, count, out);
}

mk_status ms_schema_row_add(mk_context *ctx, ms_csv_kind kind, ms_csv *table) {
  MK_TRY(ctx, ms_csv_row_add(ctx, table));
  return SCHEMA[kind].name == NULL ? MK_OK : ms_csv_set(ctx, table, "schema", SCHEMA[kind].name);
}

static mk_status check(mk_context *ctx, ms_csv_kind kind, const char *path, const ms_csv *table) {
  char text[LIST_BYTES];
  const char *name[COLUMNS_MAX];
  int count = split(SCHEMA[kind].needed, text, name);
  for (int i = 0; i < count; i++) {
    MK_CHECK(ctx, ms_csv_column(table, name[i]) >= 0, MK_ERR_FORMAT,
             "%s:1: column '%s' is missing: not a table of this kind, or its header was altered", path, name[i]);
  }
  count = split(SCHEMA[kind].numbers, text, name);
  for (int i = 0; i < count; i++) {
    for (int64_t row = 0; row < table->n_rows; row++) {
      const char *cell = ms_csv_get(table, row, name[i]);
      MK_CHECK(ctx, cell[0] == '\0' || !isnan(ms_csv_number(table, row, name[i])), MK_ERR_FORMAT,
               "%s:%lld: column '%s': '%.40s' is not a number; the file was altered", path, (long long)row + 2, name[i],
               cell);
    }
  }
  return MK_OK;
}

mk_status ms_result_read(mk_context *ctx, ms_csv_kind kind, const char *path, ms_csv **out) {
  ms_csv *table = NULL;
  MK_TRY(ctx, ms_csv_read(ctx, path, &table));
  mk_status st = check(ctx, kind, path, table);
  if (st == MK_OK) {
    *out = table;
  } else {
    ms_csv_destroy(ctx, table);
  }
  return st;
}
