/* Private to suite/study: the parts of the study reader. Reading fills structs from the tree; checking (study_check.c,
 * study_check_scale.c) compares names across blocks afterwards, so that the order of blocks in a file does not matter.
 */
#ifndef SUITE_STUDY_STUDY_READ_H
#define SUITE_STUDY_STUDY_READ_H

#include "suite/study/expr.h"
#include "suite/study/schema.h"
#include "suite/study/study.h"

/* Reads one child of a list or map into `item`; false when it is too broken to be of use. */
typedef bool (*ms_item_fn)(ms_reader *reader, const ms_node *node, void *item);

/* Reads all children of a node of `kind` into a fresh array of `size`-byte items; *count counts the usable ones. */
void ms_read_items(ms_reader *reader, const ms_node *node, ms_node_kind kind, const char *what, size_t size,
                   ms_item_fn read_item, void *array, int *count);

/* The scales: and define: blocks; `study` is the ms_study. */
void ms_read_scales(ms_reader *reader, const ms_node *node, void *study);
void ms_read_define(ms_reader *reader, const ms_node *node, void *study);
/* Adds the levels of a define: block; `scale` is the scale that it belongs to, or empty. */
void ms_read_define_of(ms_reader *reader, const ms_node *node, const char *scale, ms_study *study);

/* factors, source, tags, metrics, sanity, contrasts, claims, published, baseline, budget. */
void ms_read_factors(ms_reader *reader, const ms_node *node, void *study);
void ms_read_source(ms_reader *reader, const ms_node *node, void *study);
void ms_read_tags(ms_reader *reader, const ms_node *node, void *study);
void ms_read_metrics(ms_reader *reader, const ms_node *node, void *study);
void ms_read_sanity(ms_reader *reader, const ms_node *node, void *study);
void ms_read_contrasts(ms_reader *reader, const ms_node *node, void *study);
void ms_read_claims(ms_reader *reader, const ms_node *node, void *study);
void ms_read_published(ms_reader *reader, const ms_node *node, void *study);
void ms_read_baseline(ms_reader *reader, const ms_node *node, void *study);
void ms_read_budget(ms_reader *reader, const ms_node *node, void *study);

/* One `key: value` of the trainer, checked against its key table. */
bool ms_read_setting(ms_reader *reader, const ms_node *node, ms_setting *out);

/* Cross checks. */
void ms_check_study(ms_reader *reader, const ms_study *study);
void ms_check_scale(ms_reader *reader, const ms_study *study, const ms_scale *scale);

/* A model must be a file of suite/models/. */
void ms_check_model(ms_reader *reader, ms_place place, const char *name);

/* Parses a condition and checks its names; with `levels` its levels must be among the scale's. */
void ms_check_condition(ms_reader *reader, const ms_study *study, const ms_scale *scale, const ms_condition *condition);

/* "unknown <what> 'x'; the nearest is 'y'" among the factors, levels, claims or metrics of the study. */
void ms_fault_factor(ms_reader *reader, const ms_study *study, ms_place place, const char *name);
void ms_fault_level(ms_reader *reader, const ms_factor_levels *levels, ms_place place, const char *name);

/* Levels of a factor at a scale; NULL when the scale does not list it. */
const ms_factor_levels *ms_scale_levels(const ms_scale *scale, const char *factor);
bool ms_levels_contain(const ms_factor_levels *levels, const char *name);

#endif
