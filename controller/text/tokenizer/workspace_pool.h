// Keeps the memory of Encode between runs.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_WORKSPACE_POOL_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_WORKSPACE_POOL_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "controller/text/tokenizer/file/added_tokens.h"
#include "controller/text/tokenizer/model/word_cache.h"
#include "controller/text/tokenizer/steps/normalizer.h"
#include "controller/text/tokenizer/steps/split_regex.h"

namespace coxswain::data {

// The memory of one running Encode. Results do not depend on which workspace it gets.
struct Workspace {
  RegexScratch regex;
  WordCache cache;
  NormalizerScratch normalizer;
  std::vector<AddedTokenMatcher::Piece> raw_pieces;
  std::vector<AddedTokenMatcher::Piece> normalized_pieces;
};

// Holds as many workspaces as Encodes ran at the same time.
class WorkspacePool {
 public:
  std::unique_ptr<Workspace> Take() {
    {
      MutexLock lock(mu_);
      if (!idle_.empty()) {
        std::unique_ptr<Workspace> workspace = std::move(idle_.back());
        idle_.pop_back();
        return workspace;
      }
    }
    return std::make_unique<Workspace>();
  }

  void Return(std::unique_ptr<Workspace> workspace) {
    MutexLock lock(mu_);
    idle_.push_back(std::move(workspace));
  }

 private:
  Mutex mu_;
  std::vector<std::unique_ptr<Workspace>> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_WORKSPACE_POOL_H_
