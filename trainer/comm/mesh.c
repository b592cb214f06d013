/* The mesh of ranks: see mesh.h. */
#include "trainer/comm/mesh.h"

#include "kernels/base/heap.h"

mk_status mt_mesh_plan_make(mk_context *ctx, int world, int rank, const mt_mesh_config *config, mt_mesh_plan *out) {
  int ep = config->ep, pp = config->pp;
  MK_CHECK(ctx, world >= 1 && world <= MT_MAX_RANKS && rank >= 0 && rank < world, MK_ERR_ARG,
           "rank %d of %d: at most %d ranks", rank, world, (int)MT_MAX_RANKS);
  MK_CHECK(ctx, ep >= 1 && pp >= 1, MK_ERR_CONFIG, "ep %d and pp %d: both must be at least 1", ep, pp);
  MK_CHECK(ctx, world % pp == 0, MK_ERR_CONFIG,
           "pp %d does not divide the %d ranks: every pipeline stage needs the same number of ranks", pp, world);
  int dp = world / pp;
  MK_CHECK(ctx, dp % ep == 0, MK_ERR_CONFIG,
           "ep %d does not divide the %d data-parallel ranks of a stage (%d ranks / pp %d)", ep, dp, world, pp);
  MK_CHECK(ctx, config->experts > 0 || ep == 1, MK_ERR_CONFIG, "ep %d: the model has no experts to share out", ep);
  MK_CHECK(ctx, config->experts == 0 || ep <= config->experts, MK_ERR_CONFIG,
           "ep %d: only %lld experts, so that some ranks would hold none", ep, (long long)config->experts);
  MK_CHECK(ctx, config->experts % ep == 0, MK_ERR_CONFIG,
           "ep %d does not divide %lld experts: every rank holds the same number", ep, (long long)config->experts);
  int shard = config->shard == 0 ? dp : config->shard;
  MK_CHECK(ctx, shard >= 1 && dp % shard == 0, MK_ERR_CONFIG,
           "%d ranks that share a copy of the parameters do not divide the %d data-parallel ranks", shard, dp);
  MK_CHECK(ctx, shard % ep == 0, MK_ERR_CONFIG,
           "%d ranks that share a copy of the parameters are no multiple of ep %d, so that a copy would lack experts",
           shard, ep);
  int dp_rank = rank % dp;
  *out = (mt_mesh_plan){.world = world,
                        .rank = rank,
                        .dp = dp,
                        .dp_rank = dp_rank,
                        .ep = ep,
                        .ep_rank = dp_rank % ep,
                        .ep_dp = dp / ep,
                        .ep_dp_rank = dp_rank / ep,
                        .pp = pp,
                        .pp_rank = rank / dp,
                        .shard = {shard, shard / ep},
                        .shard_rank = {dp_rank % shard, dp_rank % shard / ep},
                        .copies = dp / shard};
  return MK_OK;
}

/* A group is `n` ranks from `first` on with a stride. */
int mt_mesh_group(const mt_mesh_plan *plan, mt_mesh_kind kind, int *ranks) {
  int stage = plan->pp_rank * plan->dp;
  int copy = stage + plan->dp_rank / plan->shard[0] * plan->shard[0];
  int first = 0, stride = 1, n = plan->world;
  switch (kind) {
    case MT_MESH_WORLD:
      break;
    case MT_MESH_DENSE:
      first = stage, n = plan->dp;
      break;
    case MT_MESH_EXPERT:
      first = stage + plan->ep_rank, stride = plan->ep, n = plan->ep_dp;
      break;
    case MT_MESH_EP:
      first = stage + plan->ep_dp_rank * plan->ep, n = plan->ep;
      break;
    case MT_MESH_PP:
      first = plan->dp_rank, stride = plan->dp, n = plan->pp;
      break;
    case MT_MESH_DENSE_SHARD:
      first = copy, n = plan->shard[0];
      break;
    case MT_MESH_EXPERT_SHARD:
      first = copy + plan->ep_rank, stride = plan->ep, n = plan->shard[1];
      break;
    case MT_MESH_COPIES:
      first = stage + plan->dp_rank % plan->shard[0], stride = plan->shard[0], n = plan->copies;
      break;
  }
  for (int i = 0; i < n; i++)
    ranks[i] = first + i * stride;
  return n;
}

/* The lowest rank of a group is its color. */
static mk_status split(mt_mesh *mesh, mt_mesh_kind kind, const char *purpose, mt_comm **out) {
  int ranks[MT_MAX_RANKS];
  mt_mesh_group(&mesh->plan, kind, ranks);
  return mt_comm_split(mesh->world, ranks[0], mesh->plan.rank, purpose, out);
}

/* Groups of hybrid sharding. Both kinds of parameters have the same ranks in `copies`, but each its own communicator,
 * because the calls of one must have one order. */
static mk_status split_copies(mt_mesh *mesh) {
  mk_context *ctx = mesh->world->ctx;
  if (mesh->plan.copies == 1) {
    mesh->shard[0] = mesh->dense;
    mesh->shard[1] = mesh->expert;
    return MK_OK;
  }
  MK_TRY(ctx, split(mesh, MT_MESH_DENSE_SHARD, "shard", &mesh->shard[0]));
  MK_TRY(ctx, split(mesh, MT_MESH_EXPERT_SHARD, "expert_shard", &mesh->shard[1]));
  MK_TRY(ctx, split(mesh, MT_MESH_COPIES, "copies", &mesh->copies[0]));
  return split(mesh, MT_MESH_COPIES, "expert_copies", &mesh->copies[1]);
}

mk_status mt_mesh_create(mk_context *ctx, mt_comm *world, const mt_mesh_config *config, mt_mesh **out) {
  mt_mesh_plan plan;
  mt_mesh *mesh = NULL;
  mk_status st = MK_OK;
  MK_TRY(ctx, mt_mesh_plan_make(ctx, world->size, world->rank, config, &plan));
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *mesh, &mesh));
  mesh->plan = plan;
  mesh->world = world;
  MK_TRY_GOTO(ctx, split(mesh, MT_MESH_DENSE, "dense", &mesh->dense), out);
  MK_TRY_GOTO(ctx, split(mesh, MT_MESH_EXPERT, "expert", &mesh->expert), out);
  MK_TRY_GOTO(ctx, split(mesh, MT_MESH_EP, "ep", &mesh->ep), out);
  MK_TRY_GOTO(ctx, split(mesh, MT_MESH_PP, "pp", &mesh->pp), out);
  MK_TRY_GOTO(ctx, split(mesh, MT_MESH_PP, "pp_back", &mesh->pp_back), out);
  MK_TRY_GOTO(ctx, split_copies(mesh), out);
  *out = mesh;
  return MK_OK;
out:
  mt_mesh_destroy(mesh);
  return st;
}

void mt_mesh_destroy(mt_mesh *mesh) {
  if (mesh == NULL) return;
  for (int kind = 1; kind >= 0; kind--)
    mt_comm_destroy(mesh->copies[kind]);
  for (int kind = 1; kind >= 0 && mesh->plan.copies > 1; kind--)
    mt_comm_destroy(mesh->shard[kind]);
  mt_comm_destroy(mesh->pp_back);
  mt_comm_destroy(mesh->pp);
  mt_comm_destroy(mesh->ep);
  mt_comm_destroy(mesh->expert);
  mt_comm_destroy(mesh->dense);
  mk_heap_free(mesh->world->ctx, mesh);
}

mt_comm *mt_mesh_all(const mt_mesh *mesh) { return mesh->plan.pp == 1 ? mesh->dense : mesh->world; }

enum { MOST_COMMS = 10 };

/* Every communicator once; returns their number. */
static int list_comms(const mt_mesh *m, mt_comm *out[MOST_COMMS]) {
  mt_comm *const one_each[] = {m->world, m->dense, m->expert, m->ep, m->pp, m->pp_back};
  int n = 0;
  for (size_t i = 0; i < sizeof one_each / sizeof one_each[0]; i++)
    out[n++] = one_each[i];
  for (int kind = 0; kind < 2 && m->plan.copies > 1; kind++) {
    out[n++] = m->shard[kind];
    out[n++] = m->copies[kind];
  }
  return n;
}

mk_status mt_mesh_poll(const mt_mesh *mesh) {
  mt_comm *comm[MOST_COMMS];
  int n = list_comms(mesh, comm);
  for (int i = 0; i < n; i++)
    MK_TRY(mesh->world->ctx, mt_comm_poll(comm[i]));
  return MK_OK;
}

int64_t mt_mesh_payload_bytes(const mt_mesh *mesh) {
  mt_comm *comm[MOST_COMMS];
  int64_t bytes = 0;
  int n = list_comms(mesh, comm);
  for (int i = 0; i < n; i++)
    bytes += comm[i]->payload_bytes;
  return bytes;
}
