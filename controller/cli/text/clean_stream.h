// The one way from cox to a terminal. Text from elsewhere (names, labels, paths, messages) cannot
// control the terminal: its control characters are escaped. See common/outside_text.h.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_CLEAN_STREAM_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_CLEAN_STREAM_H_

#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace coxswain::cli {

// Passes text on as AppendClean writes it. A character may arrive in parts. Its first bytes wait
// for the rest until a flush.
class CleanBuffer : public std::streambuf {
 public:
  explicit CleanBuffer(std::ostream* to) : to_(to) {}
  ~CleanBuffer() override { Pass(0); }

  // Passes `text` on unchanged.
  bool Put(std::string_view text);

 protected:
  std::streamsize xsputn(const char* text, std::streamsize bytes) override;
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  bool Pass(size_t kept_back);  // all of text_ except its last `kept_back` bytes

  std::ostream* const to_;
  std::string text_;  // text that was not passed on yet
};

class CleanStream : public std::ostream {
 public:
  explicit CleanStream(std::ostream* to) : std::ostream(nullptr), buffer_(to) { rdbuf(&buffer_); }

 private:
  CleanBuffer buffer_;
};

// Terminal control that cox itself writes, to a CleanStream or to a plain stream.
enum class Draw {
  kLineStart,        // the next text overwrites the line
  kClearRestOfLine,  // clears what stands to the right of the cursor
  kClearScreen,      // and puts the cursor into its first line
};
std::ostream& operator<<(std::ostream& out, Draw draw);

// Text by cox that may contain colours (ESC [ digits m). All other control characters are escaped.
struct Coloured {
  std::string_view text;
};
std::ostream& operator<<(std::ostream& out, const Coloured& coloured);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_CLEAN_STREAM_H_
