/* Strategies by configuration, and what every strategy needs to exist. */
#include "kernels/base/heap.h"
#include "trainer/parallel/parallel.h"

const mt_sharding_ops *mt_sharding_ops_for(const mt_config *cfg) {
  static const mt_sharding_ops *const by_shard[] = {
      [MT_SHARD_NONE] = &mt_none_ops,
      [MT_SHARD_DDP] = &mt_ddp_ops,
      [MT_SHARD_DIST_OPT] = &mt_dist_opt_ops,
      [MT_SHARD_FSDP] = &mt_fsdp_ops,
  };
  return by_shard[cfg->shard];
}

mt_mesh_config mt_sharding_mesh(const mt_config *cfg) {
  return (mt_mesh_config){.ep = (int)mt_config_ep(cfg),
                          .pp = (int)cfg->pp,
                          .experts = cfg->experts,
                          .shard = cfg->shard == MT_SHARD_FSDP ? (int)cfg->fsdp_shard_ranks : 0};
}

void mt_sharding_layout(mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan) {
  const mt_sharding_ops *ops = mt_sharding_ops_for(cfg);
  mt_params_shard(params, 1, 0, 1, 0);
  if (ops->layout != NULL) ops->layout(params, cfg, plan);
}

mk_status mt_stream_join(mk_context *ctx, mk_event *event, mk_stream *from, mk_stream *to) {
  MK_TRY(ctx, mk_event_record(event, from));
  return mk_stream_wait(to, event);
}

mt_comm *mt_sharding_group(const mt_mesh *mesh, bool expert) { return expert ? mesh->expert : mesh->dense; }

mk_status mt_sharding_create(mk_context *ctx, const mt_config *cfg, mt_params *params, mt_mesh *mesh, const mt_pp *pp,
                             mk_stream *compute, mk_stream *comm, mt_sharding **out) {
  mk_status st = MK_OK;
  mt_sharding *sh = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *sh, &sh));
  *sh = (mt_sharding){.ops = mt_sharding_ops_for(cfg),
                      .ctx = ctx,
                      .cfg = cfg,
                      .params = params,
                      .mesh = mesh,
                      .pp = pp,
                      .compute = compute,
                      .comm = comm};
  MK_TRY_GOTO(ctx, mk_event_create(compute->dev, &sh->ready), out);
  MK_TRY_GOTO(ctx, mk_event_create(compute->dev, &sh->reduced), out);
  if (sh->ops->init != NULL) MK_TRY_GOTO(ctx, sh->ops->init(sh), out);
  *out = sh;
  sh = NULL;
out:
  mt_sharding_destroy(sh);
  return st;
}

void mt_sharding_destroy(mt_sharding *sh) {
  if (sh == NULL) return;
  mk_context *ctx = sh->ctx;
  if (sh->ops->fini != NULL) sh->ops->fini(sh);
  mk_heap_free(ctx, sh->bucket);
  mk_event_destroy(sh->reduced);
  mk_event_destroy(sh->ready);
  mk_heap_free(ctx, sh);
}
