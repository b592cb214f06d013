/* Strategies by configuration, and what every strategy needs to exist. */
#include "kernels/base/heap.h"
#include "trainer/parallel/parallel.h"

const mt_sharding_ops *mt_sharding_ops_for(const mt_config *cfg) {
  static const mt_sharding_ops *const by_shard[] = {
      [MT_SHARD_NONE] = &mt_none_ops,
      [MT_SHARD_DDP] = &mt_ddp_ops,
      [MT_SHARD_DIST_OPT] = &mt_dist_opt_ops,
  };
  return by_shard[cfg->shard]; /* mt_config_check refuses the others */
}

mt_comm *mt_sharding_group(const mt_mesh *mesh, bool expert) { return expert ? mesh->expert : mesh->dense; }

mk_status mt_sharding_create(mk_context *ctx, const mt_config *cfg, mt_params *params, mt_mesh *mesh,
                             mk_stream *compute, mk_stream *comm, mt_sharding **out) {
  mk_status st = MK_OK;
  mt_sharding *sh = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *sh, &sh));
  *sh = (mt_sharding){.ops = mt_sharding_ops_for(cfg),
                      .ctx = ctx,
                      .cfg = cfg,
                      .params = params,
                      .mesh = mesh,
                      .compute = compute,
                      .comm = comm};
  MK_TRY_GOTO(ctx, mk_event_create(compute->dev, &sh->ready), out);
  MK_TRY_GOTO(ctx, mk_event_create(compute->dev, &sh->reduced), out);
  MK_TRY_GOTO(ctx, mt_buckets_create(sh), out);
  *out = sh;
  sh = NULL;
out:
  mt_sharding_destroy(sh);
  return st;
}

void mt_sharding_destroy(mt_sharding *sh) {
  if (sh == NULL) return;
  mk_context *ctx = sh->ctx;
  mk_heap_free(ctx, sh->bucket);
  mk_event_destroy(sh->reduced);
  mk_event_destroy(sh->ready);
  mk_heap_free(ctx, sh);
}
