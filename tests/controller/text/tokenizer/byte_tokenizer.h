// A tokenizer.json of single bytes, for tests: ordinary ids are easy to read, special tokens are
// real.
#ifndef COXSWAIN_TESTS_CONTROLLER_TEXT_TOKENIZER_BYTE_TOKENIZER_H_
#define COXSWAIN_TESTS_CONTROLLER_TEXT_TOKENIZER_BYTE_TOKENIZER_H_

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include "controller/text/tokenizer/tokenizer.h"
#include "controller/text/tokenizer/unicode/byte_alphabet.h"

namespace coxswain::data {

struct ByteTokenizerSpec {
  std::vector<std::string> special = {"<|endoftext|>",
                                      "<|im_start|>",
                                      "<|im_end|>",
                                      "<|begin_of_text|>",
                                      "<|eot_id|>",
                                      "<|start_header_id|>",
                                      "<|end_header_id|>",
                                      "<s>",
                                      "</s>",
                                      "[INST]",
                                      "[/INST]",
                                      "<bos>",
                                      "<start_of_turn>",
                                      "<end_of_turn>"};
  std::vector<std::string> not_special = {};  // added tokens that are not marked special
  std::string eos = "<|endoftext|>";          // empty: none
  std::string chat_template;
};

// Writes tokenizer.json and tokenizer_config.json into `directory`. Id b is byte b; id 256 is " H"
// (a merge); added tokens follow from 257 in the order given.
inline void WriteByteTokenizer(const std::string& directory, const ByteTokenizerSpec& spec = {}) {
  nlohmann::json vocab, added = nlohmann::json::array();
  for (int b = 0; b < 256; ++b) vocab[ByteToCharacter(static_cast<uint8_t>(b))] = b;
  const std::string space = ByteToCharacter(' ');
  vocab[space + "H"] = 256;
  int id = 257;
  for (const auto* tokens : {&spec.special, &spec.not_special}) {
    for (const std::string& token : *tokens) {
      added.push_back({{"id", id++},
                       {"content", token},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", tokens == &spec.special}});
    }
  }
  const nlohmann::json tokenizer = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "ByteLevel"},
        {"add_prefix_space", false},
        {"trim_offsets", true},
        {"use_regex", true}}},
      {"post_processor", nullptr},
      {"decoder",
       {{"type", "ByteLevel"},
        {"add_prefix_space", false},
        {"trim_offsets", true},
        {"use_regex", true}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {space + " H"}}}}};
  std::ofstream(directory + "/tokenizer.json") << tokenizer.dump();
  nlohmann::json config = {{"model_max_length", 2048}};
  if (!spec.eos.empty()) config["eos_token"] = spec.eos;
  if (!spec.chat_template.empty()) config["chat_template"] = spec.chat_template;
  std::ofstream(directory + "/tokenizer_config.json") << config.dump();
}

inline std::unique_ptr<Tokenizer> MakeByteTokenizer(const std::string& directory,
                                                    const ByteTokenizerSpec& spec = {}) {
  WriteByteTokenizer(directory, spec);
  auto tokenizer = Tokenizer::Load(directory);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

}  // namespace coxswain::data

#endif  // COXSWAIN_TESTS_CONTROLLER_TEXT_TOKENIZER_BYTE_TOKENIZER_H_
