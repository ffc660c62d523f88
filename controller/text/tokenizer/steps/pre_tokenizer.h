// Cuts normalized text into words (pre-tokens), the units of the model.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_PRE_TOKENIZER_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_PRE_TOKENIZER_H_

#include <simdjson.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/steps/split_regex.h"

namespace coxswain::data {

class PreTokenizer {
 public:
  // How a Split treats matches and the gaps between them. Each match and each gap is a part.
  enum class Behavior {
    kIsolated,
    kRemoved,             // matches are dropped
    kContiguous,          // neighbouring parts of one kind are joined
    kMergedWithPrevious,  // a match goes to the gap before it
    kMergedWithNext,      // a match goes to the gap after it
  };
  // Which texts get a prefix: none, the text at the start of the input, or all.
  enum class Prefix { kNever, kFirst, kAlways };

  // One step: first the prefix, then the cut.
  struct Stage {
    std::string space = {};          // replaces each ' ' of the text; empty: a space stays a space
    Prefix prefix = Prefix::kNever;  // writes the space first, unless the text begins with one
    bool cut_before_space = false;   // a part begins at each space
    std::unique_ptr<SplitRegex> split = nullptr;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;          // gaps count as matches, matches as gaps
    bool write_alphabet = false;  // this stage and later ones see the byte alphabet
  };

  // Appends the stages of `pre_tokenizer`, an element of tokenizer.json. InvalidArgument names a
  // step that is not supported, and those that are.
  absl::Status Read(simdjson::dom::element pre_tokenizer);

  // True when there is a ByteLevel step: words are read byte by byte. Later stages see the byte
  // alphabet, but it is converted back, so that words are bytes.
  bool byte_level() const { return byte_level_; }
  // True when a stage writes a prefix only for the text at the start of the input.
  bool looks_for_first() const;

  // True when the words of a text are exactly the text, cut: no step writes or drops anything.
  bool keeps_text() const;

  // Calls sink(std::string_view word) for each word of `text`, in order; none is empty. `text` must
  // be valid UTF-8; words are too, unless byte_level(). `is_first`: the text is at the start of the
  // input. A view lives until its call returns.
  template <typename Sink>
  absl::Status ForEachWord(std::string_view text, bool is_first, RegexScratch* scratch,
                           Sink&& sink) const {
    return Run(0, text, is_first, scratch, sink);
  }

 private:
  struct Part {
    size_t begin;
    size_t end;
    bool match;
  };

  absl::Status ReadStep(const std::string& type, simdjson::dom::element step);
  absl::Status ReadSplit(simdjson::dom::element step);
  absl::Status ReadMetaspace(simdjson::dom::element step);
  absl::Status ReadByteLevel(simdjson::dom::element step);
  absl::Status AddSplit(std::string_view pattern, Behavior behavior, bool invert);

  // Joins neighbouring parts by `behavior`.
  static void JoinParts(Behavior behavior, std::vector<Part>* parts);
  // Replaces spaces and adds the prefix. Returns `text` itself if nothing changes.
  static std::string_view WriteSpaces(const Stage& stage, std::string_view text, bool is_first,
                                      std::string* storage);

  static std::string WriteAlphabet(std::string_view text);
  static std::string ReadAlphabet(std::string_view text);

  template <typename Sink>
  absl::Status Run(size_t index, std::string_view text, bool is_first, RegexScratch* scratch,
                   Sink& sink) const {
    if (text.empty()) return absl::OkStatus();
    if (index == stages_.size()) {
      in_alphabet_ ? sink(ReadAlphabet(text)) : sink(text);
      return absl::OkStatus();
    }
    const Stage& stage = stages_[index];
    std::string storage;
    if (stage.write_alphabet) {
      storage = WriteAlphabet(text);
      text = storage;
    }
    std::string spaced;
    text = WriteSpaces(stage, text, is_first, &spaced);
    const auto pass_on = [&](size_t begin, size_t end) {
      return Run(index + 1, text.substr(begin, end - begin), is_first && begin == 0, scratch, sink);
    };
    if (stage.cut_before_space) return CutBeforeSpaces(stage.space, text, pass_on);
    if (stage.split == nullptr) return pass_on(0, text.size());
    if (stage.behavior <= Behavior::kRemoved) return CutAtMatches(stage, text, scratch, pass_on);
    return CutAndJoin(stage, text, scratch, pass_on);
  }

  template <typename PassOn>
  static absl::Status CutBeforeSpaces(std::string_view space, std::string_view text,
                                      PassOn& pass_on) {
    size_t begin = 0;
    for (size_t at = text.find(space, 1); at != std::string_view::npos;
         at = text.find(space, begin + space.size())) {
      RETURN_IF_ERROR(pass_on(begin, at));
      begin = at;
    }
    return pass_on(begin, text.size());
  }

  // Calls part(begin, end, is_match) for every match and every gap. Gaps are never empty.
  template <typename Sink>
  static absl::Status ForEachPart(const Stage& stage, std::string_view text, RegexScratch* scratch,
                                  Sink&& part) {
    size_t done = 0;  // text before it has been passed on
    RETURN_IF_ERROR(stage.split->ForEachMatch(text, scratch, [&](size_t begin, size_t end) {
      if (done < begin) RETURN_IF_ERROR(part(done, begin, stage.invert));
      done = end;
      return part(begin, end, !stage.invert);
    }));
    return done < text.size() ? part(done, text.size(), stage.invert) : absl::OkStatus();
  }

  template <typename PassOn>
  static absl::Status CutAtMatches(const Stage& stage, std::string_view text, RegexScratch* scratch,
                                   PassOn& pass_on) {
    const bool drop = stage.behavior == Behavior::kRemoved;
    return ForEachPart(stage, text, scratch, [&](size_t begin, size_t end, bool match) {
      return match && drop ? absl::OkStatus() : pass_on(begin, end);
    });
  }

  template <typename PassOn>
  static absl::Status CutAndJoin(const Stage& stage, std::string_view text, RegexScratch* scratch,
                                 PassOn& pass_on) {
    std::vector<Part> parts;
    RETURN_IF_ERROR(ForEachPart(stage, text, scratch, [&](size_t begin, size_t end, bool match) {
      parts.push_back({begin, end, match});
      return absl::OkStatus();
    }));
    JoinParts(stage.behavior, &parts);
    for (const Part& part : parts) RETURN_IF_ERROR(pass_on(part.begin, part.end));
    return absl::OkStatus();
  }

  std::vector<Stage> stages_;
  bool byte_level_ = false;
  bool in_alphabet_ = false;  // after the last stage the text is in the byte alphabet
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_STEPS_PRE_TOKENIZER_H_
