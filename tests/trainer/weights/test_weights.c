/* Weight maps: every layout is a bijection between parameters and file tensors; files round-trip bit for bit, whole or
 * by expert slices; the golden files of the other systems load; what does not fit is refused by name. */
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "kernels/base/heap.h"
#include "tests/support/check_main.h"
#include "tests/support/files.h"
#include "trainer/checkpoint/safetensors_set.h"
#include "trainer/checkpoint/weights.h"

static mt_config small(void) {
  mt_config c = mt_config_default();
  c.layers = 3;
  c.dense_layers = 1;
  c.d_model = 12;
  c.heads = 6;
  c.kv_heads = 2;
  c.head_dim = 4;
  c.dense_hidden = 10;
  c.experts = 4;
  c.top_k = 2;
  c.expert_hidden = 6;
  c.vocab = 20;
  return c;
}

static mt_config olmo(mt_norm_placement norm) {
  mt_config c = small();
  c.norm = norm;
  c.shared_hidden = 8;
  c.embed_norm = true;
  c.embed_scale = 0;
  c.weight_scale = MT_WEIGHT_SCALE_K;
  return c;
}

static mt_config olmoe(void) {
  mt_config c = small();
  c.dense_layers = 0;
  c.qk_norm = MK_QK_NORM_FULL;
  c.head_dim = 2;
  return c;
}

typedef struct map_case {
  const char *name;
  mt_weights_layout layout;
  mt_config cfg;
} map_case;

enum { N_CASES = 7 };

static map_case case_of(int i) {
  const map_case cases[N_CASES] = {
      {"qwen3 hf", MT_WEIGHTS_HF, small()},
      {"qwen3 packed", MT_WEIGHTS_HF_PACKED, small()},
      {"olmoe hf", MT_WEIGHTS_HF, olmoe()},
      {"olmoe packed", MT_WEIGHTS_HF_PACKED, olmoe()},
      {"olmo peri", MT_WEIGHTS_OLMO_CORE, olmo(MT_NORM_PERI)},
      {"olmo reordered", MT_WEIGHTS_OLMO_CORE, olmo(MT_NORM_REORDERED)},
      {"olmo pre", MT_WEIGHTS_OLMO_CORE, olmo(MT_NORM_PRE)},
  };
  return cases[i];
}

static mt_params make_params(mk_context *ctx, const mt_config *cfg, int ep, int ep_rank) {
  mt_mesh_plan plan = {
      .world = ep, .rank = ep_rank, .dp = ep, .dp_rank = ep_rank, .ep = ep, .ep_rank = ep_rank, .ep_dp = 1, .pp = 1};
  mt_params params;
  test_must(ctx, mt_params_create(ctx, cfg, &plan, &params), "params");
  return params;
}

/* A value that names parameter and element. */
static float value_of(const mt_param *p, int64_t element) {
  return (float)((int)p->role * 4096 + p->unit * 131072) + (float)element * 0.001f;
}

static mk_status get_value(void *user, const mt_param *p, int64_t first, int64_t count, float *values) {
  (void)user;
  for (int64_t i = 0; i < count; i++)
    values[i] = value_of(p, first + i);
  return MK_OK;
}

typedef struct checker {
  int64_t seen;
  int slabs;
  mk_dtype dtype;
} checker;

static mk_status put_value(void *user, const mt_param *p, int64_t first, int64_t count, const void *values) {
  checker *c = user;
  ck_assert_msg(first >= p->first && first + count <= p->first + p->count, "%s: %lld + %lld is not owned", p->name,
                (long long)first, (long long)count);
  for (int64_t i = 0; i < count; i++) {
    double got = c->dtype == MK_F64 ? ((const double *)values)[i] : ((const float *)values)[i];
    ck_assert_msg(got == (double)value_of(p, first + i), "%s element %lld: %.9g, expected %.9g", p->name,
                  (long long)(first + i), got, (double)value_of(p, first + i));
  }
  c->seen += count;
  c->slabs += 1;
  return MK_OK;
}

/* Each slab element is reached by exactly one part element and each part element by exactly one slab element; slabs
 * fill their tensors from the start without gaps. */
START_TEST(bijection) {
  mk_context ctx = {0};
  map_case c = case_of(_i);
  mt_params params = make_params(&ctx, &c.cfg, 1, 0);
  for (int p = 0; p < params.count; p++) {
    const mt_param *param = &params.item[p];
    int64_t elements = mt_weights_slab_elements(param), cols = param->dim[param->n_dims - 1];
    float slab[2048], part_values[2048];
    int64_t next = 0;
    for (int64_t s = 0; s < mt_weights_slabs(param); s++) {
      mt_weights_part part;
      int64_t covered = 0;
      for (int64_t i = 0; i < elements; i++)
        slab[i] = -1;
      for (int i = 0; mt_weights_part_get(c.layout, &c.cfg, param, s, i, &part); i++) {
        int64_t whole = 1;
        for (int d = 0; d < part.n_dims; d++)
          whole *= part.dim[d];
        ck_assert_msg(part.first == 0 || part.first == next, "%s slab %lld starts at %lld", part.name, (long long)s,
                      (long long)part.first);
        next = part.first + part.count;
        ck_assert_int_le(next, whole);
        for (int64_t k = 0; k < part.count; k++)
          part_values[k] = (float)(covered + k);
        mt_weights_part_to_slab(&part, cols, MK_F32, part_values, slab);
        covered += part.count;
      }
      ck_assert_msg(covered == elements, "%s %s: %lld of %lld", c.name, param->name, (long long)covered,
                    (long long)elements);
      char hit[2048] = {0};
      for (int64_t i = 0; i < elements; i++)
        hit[(int)slab[i]] += 1;
      for (int64_t i = 0; i < elements; i++)
        ck_assert_msg(hit[i] == 1, "%s %s element %lld", c.name, param->name, (long long)i);
    }
  }
  mt_params_fini(&params);
}
END_TEST

static mk_status export_case(mk_context *ctx, const map_case *c, const char *folder) {
  mt_params params = make_params(ctx, &c->cfg, 1, 0);
  mt_weights_export_args args = {
      .folder = folder, .cfg = &c->cfg, .params = &params, .layout = c->layout, .writes = true, .get = get_value};
  mk_status st = mt_weights_export(ctx, &args);
  mt_params_fini(&params);
  return st;
}

static mk_status import_case(mk_context *ctx, const map_case *c, const char *path, int ep, int ep_rank,
                             checker *check) {
  mt_params params = make_params(ctx, &c->cfg, ep, ep_rank);
  mt_weights_import_args args = {.path = path,
                                 .prefix = "",
                                 .cfg = &c->cfg,
                                 .params = &params,
                                 .dtype = check->dtype,
                                 .put = put_value,
                                 .user = check};
  mk_status st = mt_weights_import(ctx, &args);
  mt_params_fini(&params);
  return st;
}

START_TEST(round_trip) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  map_case c = case_of(_i);
  char path[TEST_PATH_BYTES];
  test_must(&ctx, export_case(&ctx, &c, test_path(&folder, "model", path)), "export");
  mt_params params = make_params(&ctx, &c.cfg, 1, 0);
  int64_t total = 0, expert = 0;
  for (int p = 0; p < params.count; p++) {
    total += params.item[p].total;
    expert += params.item[p].expert ? params.item[p].total : 0;
  }
  mt_params_fini(&params);
  checker whole = {.dtype = MK_F32}, wide = {.dtype = MK_F64};
  test_must(&ctx, import_case(&ctx, &c, path, 1, 0, &whole), "import");
  ck_assert_int_eq(whole.seen, total);
  test_must(&ctx, import_case(&ctx, &c, path, 1, 0, &wide), "import f64");
  ck_assert_int_eq(wide.seen, total);
  for (int rank = 0; rank < 4; rank++) { /* a rank of four reads a quarter of the experts */
    checker slice = {.dtype = MK_F32};
    test_must(&ctx, import_case(&ctx, &c, path, 4, rank, &slice), "import slice");
    ck_assert_int_eq(slice.seen, total - expert + expert / 4);
  }
  test_folder_remove(&folder);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* The weights of each golden folder load, and land where the source's own notes say. */
static const struct {
  const char *folder, *tensor;
  const char *param;
  int64_t file_first, param_first, count;
} GOLDEN[] = {
    /* hf: gate rows first in the file (32 rows of 64), up rows first here */
    {"g1-hf-olmoe", "weight/model.layers.1.mlp.experts.gate_up_proj", "layers.1.expert_up_gate", 32 * 64, 0, 32 * 64},
    {"g1-hf-olmoe", "weight/model.layers.1.mlp.experts.gate_up_proj", "layers.1.expert_up_gate", 0, 32 * 64, 32 * 64},
    {"g1-hf-olmoe", "weight/model.layers.0.self_attn.v_proj.weight", "layers.0.qkv", 0, 128 * 64, 64 * 64},
    {"g2-hf-olmoe-gqa", "weight/model.layers.0.self_attn.k_proj.weight", "layers.0.qkv", 0, 64 * 64, 32 * 64},
    {"g4-hf-qwen3moe", "weight/model.layers.0.self_attn.k_proj.weight", "layers.0.qkv", 0, 128 * 64, 64 * 64},
    {"g4-hf-qwen3moe", "weight/model.layers.0.post_attention_layernorm.weight", "layers.0.mlp_in_norm", 0, 0, 64},
    /* olmo-core: up first as here */
    {"g3-olmocore3", "weight/blocks.1.routed_experts.w_up_gate", "layers.1.expert_up_gate", 0, 0, 8 * 64 * 64},
    {"g3-olmocore3", "weight/blocks.1.routed_experts_router.weight", "layers.1.router", 0, 0, 8 * 64},
    {"g3-olmocore3", "weight/blocks.2.attention_input_norm.weight", "layers.2.attn_in_norm", 0, 0, 64},
    {"g3-olmocore3", "weight/blocks.2.attention_norm.weight", "layers.2.attn_out_norm", 0, 0, 64},
    {"g3b-olmocore3-reordered", "weight/blocks.2.feed_forward_norm.weight", "layers.2.mlp_out_norm", 0, 0, 64},
};

static mt_config golden_config(const char *folder) {
  mt_config c = small();
  c.d_model = 64;
  c.expert_hidden = 32;
  c.vocab = 256;
  c.experts = 8;
  c.heads = 4;
  c.kv_heads = 2;
  c.layers = 2;
  c.dense_layers = 0;
  if (strncmp(folder, "g1", 2) == 0 || strncmp(folder, "g2", 2) == 0) {
    c.qk_norm = MK_QK_NORM_FULL;
    c.head_dim = 16;
    c.kv_heads = folder[1] == '1' ? 4 : 2;
    c.experts = folder[1] == '1' ? 8 : 16;
  } else if (strncmp(folder, "g4", 2) == 0) {
    c.head_dim = 32;
  } else {
    bool base = strcmp(folder, "g3-olmocore3") == 0;
    c.layers = 3;
    c.dense_layers = 1;
    c.dense_hidden = 160;
    c.shared_hidden = 32;
    c.head_dim = base ? 32 : 16;
    c.embed_norm = base || folder[2] == 'd';
    c.norm = folder[2] == 'b' ? MT_NORM_REORDERED : folder[2] == 'c' ? MT_NORM_PRE : MT_NORM_PERI;
  }
  return c;
}

typedef struct finder {
  const char *param;
  int64_t first, count, found;
  float values[8 * 64 * 64];
} finder;

static mk_status put_found(void *user, const mt_param *p, int64_t first, int64_t count, const void *values) {
  finder *f = user;
  if (strcmp(p->name, f->param) != 0) return MK_OK;
  for (int64_t i = 0; i < count; i++) {
    int64_t place = first + i - f->first;
    if (place < 0 || place >= f->count) continue;
    f->values[place] = ((const float *)values)[i];
    f->found += 1;
  }
  return MK_OK;
}

START_TEST(golden) {
  static finder f;
  static float want[8 * 64 * 64];
  mk_context ctx = {0};
  char path[TEST_PATH_BYTES];
  mt_st_reader *r = NULL;
  mt_config cfg = golden_config(GOLDEN[_i].folder);
  mt_params params = make_params(&ctx, &cfg, 1, 0);
  snprintf(path, sizeof path, "%s/%s/golden.safetensors", GOLDEN_DATA, GOLDEN[_i].folder);
  f = (finder){.param = GOLDEN[_i].param, .first = GOLDEN[_i].param_first, .count = GOLDEN[_i].count};
  mt_weights_import_args args = {
      .path = path, .prefix = "weight/", .cfg = &cfg, .params = &params, .dtype = MK_F32, .put = put_found, .user = &f};
  test_must(&ctx, mt_weights_import(&ctx, &args), path);
  ck_assert_int_eq(f.found, f.count);
  test_must(&ctx, mt_st_reader_create(&ctx, path, &r), path);
  const mt_st_tensor *t = mt_st_reader_find(r, GOLDEN[_i].tensor);
  ck_assert_ptr_nonnull(t);
  test_must(&ctx, mt_st_reader_get(r, t, GOLDEN[_i].file_first, f.count, MK_F32, want), path);
  ck_assert_msg(memcmp(want, f.values, (size_t)f.count * sizeof want[0]) == 0, "%s in %s", f.param, path);
  mt_st_reader_destroy(r);
  mt_params_fini(&params);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* Olmo-core keeps the down projections and the shared expert transposed. */
START_TEST(golden_transposed) {
  static finder f;
  static float file[8 * 64 * 64];
  mk_context ctx = {0};
  mt_st_reader *r = NULL;
  const char *path = GOLDEN_DATA "/g3-olmocore3/golden.safetensors";
  mt_config cfg = golden_config("g3-olmocore3");
  mt_params params = make_params(&ctx, &cfg, 1, 0);
  f = (finder){.param = "layers.2.expert_down", .count = 8 * 64 * 32};
  mt_weights_import_args args = {
      .path = path, .prefix = "weight/", .cfg = &cfg, .params = &params, .dtype = MK_F32, .put = put_found, .user = &f};
  test_must(&ctx, mt_weights_import(&ctx, &args), path);
  test_must(&ctx, mt_st_reader_create(&ctx, path, &r), path);
  const mt_st_tensor *t = mt_st_reader_find(r, "weight/blocks.2.routed_experts.w_down"); /* [8,32,64] */
  test_must(&ctx, mt_st_reader_get(r, t, 0, t->count, MK_F32, file), path);
  for (int e = 0; e < 8; e++) {
    for (int d = 0; d < 64; d++) {
      for (int h = 0; h < 32; h++)
        ck_assert(f.values[(e * 64 + d) * 32 + h] == file[(e * 32 + h) * 64 + d]);
    }
  }
  f = (finder){.param = "layers.0.shared_up_gate", .count = 320 * 64};
  test_must(&ctx, mt_weights_import(&ctx, &args), path);
  t = mt_st_reader_find(r, "weight/blocks.0.shared_experts.w_up_gate"); /* [64,320] */
  test_must(&ctx, mt_st_reader_get(r, t, 0, t->count, MK_F32, file), path);
  for (int row = 0; row < 320; row++) {
    for (int d = 0; d < 64; d++)
      ck_assert(f.values[row * 64 + d] == file[d * 320 + row]);
  }
  mt_st_reader_destroy(r);
  mt_params_fini(&params);
}
END_TEST

START_TEST(refusals) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES];
  checker check = {.dtype = MK_F32};
  map_case c = case_of(0);
  test_must(&ctx, export_case(&ctx, &c, test_path(&folder, "model", path)), "export");
  map_case more = c, fewer = c, wider = c, other = c, shared = c;
  more.cfg.layers += 1;
  fewer.cfg.experts -= 1;
  wider.cfg.expert_hidden += 2;
  other.cfg.qk_norm = MK_QK_NORM_NONE;
  shared.cfg.shared_hidden = 8;
  TEST_ERROR(&ctx, import_case(&ctx, &more, path, 1, 0, &check), MK_ERR_MISMATCH,
             "'model.layers.3.input_layernorm.weight' of shape [12] is missing");
  TEST_ERROR(&ctx, import_case(&ctx, &fewer, path, 1, 0, &check), MK_ERR_MISMATCH, "'model.layers.1.mlp.gate.weight'",
             "expected shape [3,12], found [4,12]");
  TEST_ERROR(&ctx, import_case(&ctx, &wider, path, 1, 0, &check), MK_ERR_MISMATCH,
             "'model.layers.1.mlp.experts.0.up_proj.weight'", "expected shape [8,12], found [6,12]");
  TEST_ERROR(&ctx, import_case(&ctx, &other, path, 1, 0, &check), MK_ERR_MISMATCH,
             "'model.layers.0.self_attn.k_norm.weight' [4] is not of this model");
  TEST_ERROR(&ctx, import_case(&ctx, &shared, path, 1, 0, &check), MK_ERR_MISMATCH, "layers.1.shared_up_gate",
             "no name");
  ck_assert_int_eq(check.seen, 0); /* nothing was loaded before the refusal */
  TEST_ERROR(&ctx, import_case(&ctx, &c, folder.path, 1, 0, &check), MK_ERR_IO, "neither model.safetensors");
  TEST_ERROR(&ctx, import_case(&ctx, &c, "/nonexistent.safetensors", 1, 0, &check), MK_ERR_IO,
             "/nonexistent.safetensors");
  TEST_ERROR(&ctx, export_case(&ctx, &shared, path), MK_ERR_UNSUPPORTED, "layers.1.shared_up_gate");
  ck_assert_int_eq(ctx.heap_live, 0);
  test_folder_remove(&folder);
}
END_TEST

/* What no shape shows must agree with the folder's config.json: normalised expert weights, RoPE's base, epsilon. A file
 * that is named says nothing about it. */
START_TEST(r11_a_model_folder_must_agree) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES], file[TEST_PATH_BYTES + 24];
  checker check = {.dtype = MK_F32};
  map_case c = case_of(_i == 0 ? 0 : 2), other = c;
  const char *norm = c.cfg.norm_topk ? "has norm_topk true, this run false" : "has norm_topk false, this run true";
  test_must(&ctx, export_case(&ctx, &c, test_path(&folder, "model", path)), "export");
  snprintf(file, sizeof file, "%s/model.safetensors", path);
  other.cfg.norm_topk = !c.cfg.norm_topk;
  TEST_ERROR(&ctx, import_case(&ctx, &other, path, 1, 0, &check), MK_ERR_MISMATCH, "config.json", norm,
             "set norm_topk=");
  ck_assert_int_eq(check.seen, 0);
  test_must(&ctx, import_case(&ctx, &other, file, 1, 0, &check), "the file by its name");
  other = c, other.cfg.rope_theta = 1234.5;
  TEST_ERROR(&ctx, import_case(&ctx, &other, path, 1, 0, &check), MK_ERR_MISMATCH,
             "rope_theta 500000, this run 1234.5");
  other = c, other.cfg.norm_eps = 1e-3;
  TEST_ERROR(&ctx, import_case(&ctx, &other, path, 1, 0, &check), MK_ERR_MISMATCH, "norm_eps");
  test_must(&ctx, import_case(&ctx, &c, path, 1, 0, &check), "the model itself");
  ck_assert_int_eq(ctx.heap_live, 0);
  test_folder_remove(&folder);
}
END_TEST

static mk_status get_nan(void *user, const mt_param *p, int64_t first, int64_t count, float *values) {
  get_value(NULL, p, first, count, values);
  if (strcmp(p->name, "layers.1.expert_up_gate") == 0 && first == 2 * count) values[7] = *(const float *)user;
  return MK_OK;
}

START_TEST(not_finite) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES];
  map_case c = case_of(_i); /* 0: one tensor an expert; 1: packed, where the up rows follow the gate rows */
  mt_params params = make_params(&ctx, &c.cfg, 1, 0);
  float bad = _i == 0 ? NAN : -INFINITY;
  mt_weights_export_args args = {.folder = test_path(&folder, "model", path),
                                 .cfg = &c.cfg,
                                 .params = &params,
                                 .layout = c.layout,
                                 .writes = true,
                                 .get = get_nan,
                                 .user = &bad};
  test_must(&ctx, mt_weights_export(&ctx, &args), "export");
  mt_params_fini(&params);
  finder f = {.param = "none"};
  params = make_params(&ctx, &c.cfg, 1, 0);
  mt_weights_import_args in = {
      .path = path, .prefix = "", .cfg = &c.cfg, .params = &params, .dtype = MK_F32, .put = put_found, .user = &f};
  mk_status st = mt_weights_import(&ctx, &in);
  if (_i == 0) {
    TEST_ERROR(&ctx, st, MK_ERR_FORMAT, "'model.layers.1.mlp.experts.2.up_proj.weight': element 7 is NaN");
  } else { /* expert 2 of [4,12,12]: 2*144 + 6*12 gate elements + 7 */
    TEST_ERROR(&ctx, st, MK_ERR_FORMAT, "'model.layers.1.mlp.experts.gate_up_proj': element 367 is infinite");
  }
  mt_params_fini(&params);
  test_folder_remove(&folder);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* Two shards and an index, as transformers writes large models: the experts in one, the rest in the other. */
START_TEST(shards) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  map_case c = case_of(0);
  char path[TEST_PATH_BYTES], shard[TEST_PATH_BYTES], index[TEST_PATH_BYTES];
  static float values[4096];
  mt_st_reader *r = NULL;
  test_must(&ctx, export_case(&ctx, &c, test_path(&folder, "model", path)), "export");
  strcat(path, "/model.safetensors");
  test_must(&ctx, mt_st_reader_create(&ctx, path, &r), "open");
  FILE *map = fopen(test_path(&folder, "model.safetensors.index.json", index), "w");
  fprintf(map, "{\"metadata\":{},\"weight_map\":{");
  int64_t written = 0;
  for (int s = 0; s < 2; s++) {
    mt_st_tensor specs[128];
    mt_st_writer *w = NULL;
    int64_t n = 0;
    for (int64_t i = 0; i < mt_st_reader_count(r); i++) {
      const mt_st_tensor *t = mt_st_reader_at(r, i);
      if ((strstr(t->name, "experts") != NULL) != (s == 1)) continue;
      specs[n++] = *t;
      fprintf(map, "%s\"%s\":\"shard%d.safetensors\"", written++ > 0 ? "," : "", t->name, s);
    }
    snprintf(shard, sizeof shard, "%.440s/shard%d.safetensors", folder.path, s);
    test_must(&ctx, mt_st_writer_create(&ctx, shard, specs, n, NULL, &w), "create");
    for (int64_t i = 0; i < n; i++) {
      test_must(&ctx, mt_st_reader_get(r, mt_st_reader_find(r, specs[i].name), 0, specs[i].count, MK_F32, values),
                "get");
      test_must(&ctx, mt_st_writer_put(w, i, values, specs[i].count), "put");
    }
    test_must(&ctx, mt_st_writer_commit(w), "commit");
    mt_st_writer_destroy(w);
  }
  fprintf(map, "}}");
  fclose(map);
  mt_st_reader_destroy(r);
  checker check = {.dtype = MK_F32};
  test_must(&ctx, import_case(&ctx, &c, folder.path, 1, 0, &check), "import shards");
  ck_assert_int_gt(check.slabs, 20);
  ck_assert_int_eq(remove(shard), 0);
  TEST_ERROR(&ctx, import_case(&ctx, &c, folder.path, 1, 0, &check), MK_ERR_IO, "shard1.safetensors", "cannot open");
  ck_assert_int_eq(ctx.heap_live, 0);
  test_folder_remove(&folder);
}
END_TEST

/* The disk fills while rank 0 writes: it still takes part in every get, so that no rank waits for it. */
static mk_status count_gets(void *user, const mt_param *p, int64_t first, int64_t count, float *values) {
  *(int *)user += 1;
  return get_value(NULL, p, first, count, values);
}

START_TEST(full_disk) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES];
  map_case c = case_of(0);
  mt_params params = make_params(&ctx, &c.cfg, 1, 0);
  int listened = 0, wrote = 0;
  mt_weights_export_args args = {.folder = test_path(&folder, "model", path),
                                 .cfg = &c.cfg,
                                 .params = &params,
                                 .layout = c.layout,
                                 .get = count_gets,
                                 .user = &listened};
  test_must(&ctx, mt_weights_export(&ctx, &args), "a rank that does not write");
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit = {.rlim_cur = 9000, .rlim_max = RLIM_INFINITY};
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  args.writes = true;
  args.user = &wrote;
  TEST_ERROR(&ctx, mt_weights_export(&ctx, &args), MK_ERR_OUTPUT, "model.safetensors", "cannot write");
  ck_assert_int_eq(wrote, listened);
  checker check = {.dtype = MK_F32};
  TEST_ERROR(&ctx, import_case(&ctx, &c, path, 1, 0, &check), MK_ERR_IO, "neither");
  mt_params_fini(&params);
  ck_assert_int_eq(ctx.heap_live, 0);
  test_folder_remove(&folder);
}
END_TEST

START_TEST(layouts) {
  for (int i = 0; i < N_CASES; i++) {
    map_case c = case_of(i);
    mt_weights_layout want = c.layout == MT_WEIGHTS_HF_PACKED ? MT_WEIGHTS_HF : c.layout;
    if (i == 6) ck_assert_msg(c.cfg.shared_hidden > 0, "the pre-norm Olmo case must differ from Qwen3");
    ck_assert_msg(mt_weights_layout_for(&c.cfg) == want, "%s: %s", c.name,
                  mt_weights_layout_name(mt_weights_layout_for(&c.cfg)));
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("weights");
  TCase *tcase = test_case(suite, "maps", 60);
  tcase_add_loop_test(tcase, bijection, 0, N_CASES);
  tcase_add_loop_test(tcase, round_trip, 0, N_CASES);
  tcase_add_loop_test(tcase, golden, 0, (int)(sizeof GOLDEN / sizeof GOLDEN[0]));
  tcase_add_test(tcase, golden_transposed);
  tcase_add_test(tcase, refusals);
  tcase_add_loop_test(tcase, r11_a_model_folder_must_agree, 0, 2);
  tcase_add_loop_test(tcase, not_finite, 0, 2);
  tcase_add_test(tcase, shards);
  tcase_add_test(tcase, full_disk);
  tcase_add_test(tcase, layouts);
  return test_main(suite);
}
