/* See schedule.h. */
#include "trainer/launch/schedule.h"

#include "kernels/base/heap.h"
#include "kernels/base/out.h"
#include "trainer/parallel/pp_schedule.h"

typedef size_t (*text_fn)(const mt_pp_plan *plan, int rank, char *text, size_t bytes);

static mk_status print_line(const mt_pp_plan *plan, int rank, const char *name, text_fn fn) {
  char *text = NULL;
  size_t bytes = fn(plan, rank, NULL, 0) + 1;
  MK_TRY(plan->ctx, mk_heap_alloc(plan->ctx, bytes, &text));
  fn(plan, rank, text, bytes);
  mk_out("  %s %s\n", name, text);
  mk_heap_free(plan->ctx, text);
  return MK_OK;
}

static mk_status print_rank(const mt_pp_plan *plan, const mt_config *cfg, int rank) {
  const mt_pp_shape *shape = &plan->shape;
  mk_out("rank %d:", rank);
  for (int c = 0; c < shape->chunks; c++) {
    mt_pp_stage s = mt_pp_stage_make(shape, cfg->layers, mt_pp_stage_at(shape, rank, c));
    mk_out(" stage %d (%slayers %lld-%lld%s),", s.stage, s.embeds ? "embedding, " : "", (long long)s.first_layer,
           (long long)(s.first_layer + s.layers - 1), s.predicts ? ", head" : "");
  }
  mk_out(" %d chunks live at most\n", plan->rank[rank].sets);
  MK_TRY(plan->ctx, print_line(plan, rank, "slots  ", mt_pp_slots_text));
  return print_line(plan, rank, "actions", mt_pp_list_text);
}

mk_status mt_schedule_print(mk_context *ctx, const mt_config *cfg) {
  mk_status st = MK_OK;
  char name[32];
  mt_pp_plan plan = {0};
  mt_pp_shape shape = mt_pp_shape_of(cfg);
  mt_config_get(cfg, mt_config_key_find("pp_schedule"), name, sizeof name);
  MK_TRY(ctx, mt_pp_plan_make(ctx, &shape, &plan));
  mk_out("%s: %d pipeline ranks with %d chunks each, %lld microbatches\n", name, shape.ranks, shape.chunks,
         (long long)shape.microbatches);
  mk_out("%lld slots (a forward pass takes 1, a backward pass 2), bubble %.2f %%\n", (long long)plan.makespan,
         100 * mt_pp_bubble(&plan));
  for (int r = 0; r < shape.ranks; r++)
    MK_TRY_GOTO(ctx, print_rank(&plan, cfg, r), out);
out:
  mt_pp_plan_fini(&plan);
  return st;
}
