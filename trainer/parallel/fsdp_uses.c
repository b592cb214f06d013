/* The order in which a rank uses units, from its pipeline list: a forward pass of a chunk uses embedding, layers and
 * head as far as the chunk has them, a backward pass the layers from the last to the first. Layers of a chunk are
 * treated alike, so that two bits for each pass say when they are gathered and released; modes and counts in fsdp.c. */
#include "kernels/base/heap.h"
#include "trainer/parallel/fsdp.h"

/* Whether layers stay behind a pass; `flight`: forward passes whose backward pass is still to come. Passes of a stage
 * run in the order of microbatches, so that the last backward pass is the chunk's last. */
static bool stays(const mt_pp_action *a, mt_fsdp_reshard reshard, int64_t flight, int64_t microbatches) {
  switch (reshard) {
    case MT_KEEP_TO_BACKWARD:
      return flight > 0;
    case MT_KEEP_TO_FORWARD:
      return a->backward && a->microbatch < microbatches - 1;
    default:
      return false;
  }
}

int64_t mt_fsdp_passes(const mt_pp_list *list, int chunk, mt_fsdp_reshard reshard, int64_t microbatches,
                       mt_fsdp_pass *pass) {
  int64_t flight = 0, gathers = 0;
  bool here = false;
  for (int64_t i = 0; i < list->count; i++) {
    const mt_pp_action *a = &list->action[i];
    if (a->op != MT_PP_COMPUTE || a->chunk != chunk) continue;
    flight += a->backward ? -1 : 1;
    bool stay = stays(a, reshard, flight, microbatches);
    if (pass != NULL) pass[i] = (mt_fsdp_pass){.gathers = !here, .releases = !stay};
    gathers += !here;
    here = stay;
  }
  return gathers;
}

mk_status mt_fsdp_uses_make(mk_context *ctx, const mt_config *cfg, const mt_pp_list *list, bool train,
                            mt_fsdp_uses *out) {
  mt_fsdp_uses uses = {.cfg = cfg, .list = list, .shape = mt_pp_shape_of(cfg)};
  if (train) MK_TRY(ctx, mk_heap_array(ctx, (size_t)list->count, sizeof *uses.pass, &uses.pass));
  for (int chunk = 0; train && chunk < uses.shape.chunks; chunk++)
    mt_fsdp_passes(list, chunk, cfg->fsdp_reshard, uses.shape.microbatches, uses.pass);
  *out = uses;
  return MK_OK;
}

void mt_fsdp_uses_fini(mk_context *ctx, mt_fsdp_uses *uses) { mk_heap_free(ctx, uses->pass); }

/* ---- walking ---- */

/* Units of a compute action: forward from the first to the last, backward from the last to the first. */
typedef struct span {
  int first, last;
} span;

static span span_of(const mt_fsdp_uses *u, const mt_pp_action *a) {
  mt_pp_stage s = mt_pp_stage_make(&u->shape, u->cfg->layers, a->stage);
  bool embeds = s.embeds && !a->backward, predicts = s.predicts && !a->backward;
  int layers = (int)s.layers, first = (int)s.first_layer + 1;
  return (span){.first = first - (embeds ? 1 : 0), .last = first + layers - 1 + (predicts ? 1 : 0)};
}

/* On to the next compute action, from the walk's own on. */
static void find_pass(mt_fsdp_walk *w) {
  const mt_pp_list *list = w->uses->list;
  while (w->action < list->count && list->action[w->action].op != MT_PP_COMPUTE)
    w->action += 1;
}

mt_fsdp_walk mt_fsdp_walk_start(const mt_fsdp_uses *uses) {
  mt_fsdp_walk w = {.uses = uses};
  find_pass(&w);
  return w;
}

void mt_fsdp_walk_on(mt_fsdp_walk *w) {
  span s = span_of(w->uses, &w->uses->list->action[w->action]);
  w->before += 1;
  w->within += 1;
  if (w->within <= s.last - s.first) return;
  w->within = 0;
  w->action += 1;
  find_pass(w);
}

/* The embedding is never kept, since its backward pass needs no weights. The head runs both ways at once: kept to the
 * forward pass it stays from the first microbatch to the last. */
static mt_fsdp_pass pass_of(const mt_fsdp_uses *u, int64_t action, int unit) {
  const mt_pp_action *a = &u->list->action[action];
  mt_fsdp_pass always = {.gathers = true, .releases = true};
  if (u->pass == NULL || unit == 0) return always;
  if (unit <= u->cfg->layers) return u->pass[action];
  if (u->cfg->fsdp_reshard != MT_KEEP_TO_FORWARD) return always;
  return (mt_fsdp_pass){.gathers = a->microbatch == 0, .releases = a->microbatch == u->shape.microbatches - 1};
}

bool mt_fsdp_walk_get(const mt_fsdp_walk *w, mt_fsdp_use *out) {
  const mt_fsdp_uses *u = w->uses;
  if (u == NULL || w->action == u->list->count) return false;
  const mt_pp_action *a = &u->list->action[w->action];
  span s = span_of(u, a);
  int unit = a->backward ? s.last - (int)w->within : s.first + (int)w->within;
  bool both = u->pass != NULL && unit > u->cfg->layers;
  mt_fsdp_pass pass = pass_of(u, w->action, unit);
  *out = (mt_fsdp_use){.unit = unit,
                       .use = both          ? MT_USE_BOTH
                              : a->backward ? MT_USE_BACKWARD
                                            : MT_USE_FORWARD,
                       .gathers = pass.gathers,
                       .releases = pass.releases};
  return true;
}
