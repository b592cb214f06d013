/* config.json of OLMoE and Qwen3-MoE: what is read, what is refused, and that what is written is read back. */
#include <cjson/cJSON.h>

#include "tests/support/check_main.h"
#include "tests/support/files.h"
#include "trainer/checkpoint/hf_config.h"

/* Shaped like the config.json that the Qwen3-30B-A3B checkpoint carries (transformers 4 keys). */
#define QWEN3 \
  "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"attention_bias\":false,\"attention_dropout\":0.0," \
  "\"decoder_sparse_step\":1,\"head_dim\":128,\"hidden_act\":\"silu\",\"hidden_size\":2048," \
  "\"initializer_range\":0.02,\"intermediate_size\":6144,\"mlp_only_layers\":[],\"model_type\":\"qwen3_moe\"," \
  "\"moe_intermediate_size\":768,\"norm_topk_prob\":true,\"num_attention_heads\":32,\"num_experts\":128," \
  "\"num_experts_per_tok\":8,\"num_hidden_layers\":48,\"num_key_value_heads\":4,\"rms_norm_eps\":1e-06," \
  "\"rope_scaling\":null,\"rope_theta\":1000000.0,\"router_aux_loss_coef\":0.001,\"tie_word_embeddings\":false," \
  "\"use_sliding_window\":false,\"vocab_size\":151936}"

#define OLMOE \
  "{\"model_type\":\"olmoe\",\"hidden_size\":2048,\"intermediate_size\":1024,\"num_attention_heads\":16," \
  "\"num_key_value_heads\":16,\"num_hidden_layers\":16,\"num_experts\":64,\"num_experts_per_tok\":8," \
  "\"vocab_size\":50304,\"clip_qkv\":null,\"norm_topk_prob\":false,\"rope_theta\":10000.0}"

static mk_status parse(mk_context *ctx, const char *text, mt_config *cfg) {
  cJSON *root = cJSON_Parse(text);
  ck_assert_msg(root != NULL, "test text is not JSON: %s", text);
  mk_status st = mt_hf_config_parse(ctx, "config.json", root, cfg);
  cJSON_Delete(root);
  return st;
}

START_TEST(qwen3) {
  mk_context ctx = {0};
  mt_config c = mt_config_default();
  c.seq_len = 77;
  test_must(&ctx, parse(&ctx, QWEN3, &c), "qwen3");
  ck_assert_str_eq(c.model, "qwen3_moe");
  ck_assert_int_eq(c.layers, 48);
  ck_assert_int_eq(c.dense_layers, 0);
  ck_assert_int_eq(c.d_model, 2048);
  ck_assert_int_eq(c.heads, 32);
  ck_assert_int_eq(c.kv_heads, 4);
  ck_assert_int_eq(c.head_dim, 128);
  ck_assert_int_eq(c.experts, 128);
  ck_assert_int_eq(c.top_k, 8);
  ck_assert_int_eq(c.expert_hidden, 768);
  ck_assert_int_eq(c.vocab, 151936);
  ck_assert(c.norm == MT_NORM_PRE && c.qk_norm == MK_QK_NORM_HEAD && c.lb_def == MK_LB_HF && c.norm_topk);
  ck_assert(c.norm_eps == 1e-6 && c.rope_theta == 1e6 && c.lb_weight == 0.001 && c.router_z_weight == 0);
  ck_assert(c.embed_scale == 1 && !c.embed_norm && c.shared_hidden == 0 && c.weight_scale == MT_WEIGHT_SCALE_ONE);
  ck_assert_int_eq(c.seq_len, 77); /* not a model key */
}
END_TEST

START_TEST(olmoe) {
  mk_context ctx = {0};
  mt_config c = mt_config_default();
  test_must(&ctx, parse(&ctx, OLMOE, &c), "olmoe");
  ck_assert(c.qk_norm == MK_QK_NORM_FULL && !c.norm_topk && c.clip_qkv == 0);
  ck_assert(c.norm_eps == 1e-5 && c.lb_weight == 0.01); /* the library's defaults: the file leaves them out */
  ck_assert_int_eq(c.head_dim, 128);
  ck_assert_int_eq(c.expert_hidden, 1024);
}
END_TEST

static const struct {
  const char *from, *to; /* replacement in QWEN3 */
  const char *word;
  mk_status status;
} REFUSED[] = {
    {"qwen3_moe", "qwen3_next", "qwen3_next", MK_ERR_UNSUPPORTED},
    {"\"model_type\"", "\"model_kind\"", "model_type", MK_ERR_FORMAT},
    {"\"attention_bias\":false", "\"attention_bias\":true", "attention_bias", MK_ERR_UNSUPPORTED},
    {"\"tie_word_embeddings\":false", "\"tie_word_embeddings\":true", "tie_word_embeddings", MK_ERR_UNSUPPORTED},
    {"\"use_sliding_window\":false", "\"use_sliding_window\":true", "use_sliding_window", MK_ERR_UNSUPPORTED},
    {"\"attention_dropout\":0.0", "\"attention_dropout\":0.1", "attention_dropout", MK_ERR_UNSUPPORTED},
    {"\"rope_scaling\":null", "\"rope_scaling\":{\"type\":\"yarn\"}", "rope_scaling", MK_ERR_UNSUPPORTED},
    {"\"rope_scaling\":null", "\"rope_parameters\":{\"rope_type\":\"yarn\"}", "yarn", MK_ERR_UNSUPPORTED},
    {"\"silu\"", "\"gelu\"", "gelu", MK_ERR_UNSUPPORTED},
    {"\"decoder_sparse_step\":1", "\"decoder_sparse_step\":2", "decoder_sparse_step", MK_ERR_UNSUPPORTED},
    {"\"mlp_only_layers\":[]", "\"mlp_only_layers\":[3]", "mlp_only_layers", MK_ERR_UNSUPPORTED},
    {"\"hidden_size\":2048", "\"hidden_size\":2048.5", "hidden_size", MK_ERR_FORMAT},
    {"\"hidden_size\":2048", "\"hidden_size\":0", "hidden_size", MK_ERR_FORMAT},
    {"\"hidden_size\":2048", "\"hidden_size\":\"2048\"", "hidden_size", MK_ERR_FORMAT},
    {"\"vocab_size\":151936", "\"vocab\":151936", "vocab_size", MK_ERR_FORMAT},
    {"\"norm_topk_prob\":true", "\"norm_topk_prob\":1", "norm_topk_prob", MK_ERR_FORMAT},
    {"\"num_hidden_layers\":48", "\"num_hidden_layers\":4800000", "layers", MK_ERR_CONFIG},
};

START_TEST(refused) {
  mk_context ctx = {0};
  mt_config c = mt_config_default(), before = c;
  char text[2048] = "";
  const char *at = strstr(QWEN3, REFUSED[_i].from);
  ck_assert_ptr_nonnull(at);
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - QWEN3), QWEN3, REFUSED[_i].to, at + strlen(REFUSED[_i].from));
  TEST_ERROR(&ctx, parse(&ctx, text, &c), REFUSED[_i].status, REFUSED[_i].word);
  ck_assert_msg(memcmp(&c, &before, sizeof c) == 0, "the config changed");
}
END_TEST

START_TEST(written) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES];
  mt_config c = mt_config_default(), back = mt_config_default();
  test_must(&ctx, parse(&ctx, _i == 0 ? QWEN3 : OLMOE, &c), "parse");
  if (_i == 0) {
    c.dense_layers = 2;
    c.dense_hidden = 6144;
  } else {
    c.clip_qkv = 8;
  }
  test_must(&ctx, mt_hf_config_write(&ctx, test_path(&folder, "config.json", path), &c), "write");
  test_must(&ctx, mt_hf_config_read(&ctx, path, &back), "read");
  size_t count = 0;
  const mt_key *keys = mt_config_keys(&count);
  for (size_t i = 0; i < count; i++) {
    char want[MT_TEXT_BYTES], got[MT_TEXT_BYTES];
    mt_config_get(&c, &keys[i], want, sizeof want);
    mt_config_get(&back, &keys[i], got, sizeof got);
    ck_assert_msg(strcmp(want, got) == 0, "%s: wrote %s, read %s", keys[i].name, want, got);
  }
  TEST_ERROR(&ctx, mt_hf_config_read(&ctx, "/nonexistent/config.json", &back), MK_ERR_IO, "/nonexistent/config.json");
  test_folder_remove(&folder);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("hf_config");
  TCase *tcase = tcase_create("config.json");
  tcase_add_test(tcase, qwen3);
  tcase_add_test(tcase, olmoe);
  tcase_add_loop_test(tcase, refused, 0, (int)(sizeof REFUSED / sizeof REFUSED[0]));
  tcase_add_loop_test(tcase, written, 0, 2);
  suite_add_tcase(suite, tcase);
  return test_main(suite);
}
