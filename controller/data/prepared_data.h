// The result of data preparation: token stores, and statistics of the records.
#ifndef COXSWAIN_CONTROLLER_DATA_PREPARED_DATA_H_
#define COXSWAIN_CONTROLLER_DATA_PREPARED_DATA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/data/token_store.h"
#include "controller/data/findings.h"
#include "controller/text/templates/turn_counts.h"

namespace coxswain::data {

struct DatasetStats {
  int64_t records_read = 0;
  int64_t documents = 0;  // in the store, copies included
  int64_t dropped_too_long = 0;
  int64_t truncated = 0;
  int64_t split = 0;           // records cut into pieces, each a document
  TurnCounts turns;            // of conversations
  int64_t bad_records = 0;     // skipped by on_bad_record: skip
  int64_t no_target = 0;       // dropped: no trainable token
  int64_t equal_sides = 0;     // pairs dropped: chosen equals rejected
  int64_t equal_once_cut = 0;  // pairs dropped: they do, once cut to sequence_len
  int64_t tokens = 0;
  int64_t targets = 0;
  int64_t longest_document = 0;  // tokens
  int64_t largest_id = -1;       // largest token id
  std::vector<int64_t> classes;  // of classification, records of each class; else empty
};

struct PreparedData {
  std::unique_ptr<TokenStore> train;
  std::unique_ptr<TokenStore> eval;  // null: the job evaluates nothing
  // Of both stores. 2: documents 2u and 2u + 1 are unit u, which is dealt and packed as one; of a
  // pair the first is chosen and the second rejected (config::DocumentsPerUnit).
  int64_t documents_per_unit = 1;
  DatasetStats train_stats;
  DatasetStats eval_stats;
  int64_t vocab_size = 0;          // of the tokenizer with added tokens: largest id + 1
  int64_t added_tokens = 0;        // tokens of the job that the tokenizer lacked
  int64_t pad_token = -1;          // of the tokenizer; -1: it has none
  std::vector<Findings> findings;  // of each of job.datasets, then of test_datasets
  std::string content_hash;        // SHA-256 hex of everything on which the tokens depend
  std::vector<std::string> warnings;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PREPARED_DATA_H_
