// The one way from cox to a terminal: what comes from elsewhere (names, labels, paths, messages)
// does nothing there but be read. See common/outside_text.h.
#ifndef COXSWAIN_CONTROLLER_CLI_CLEAN_STREAM_H_
#define COXSWAIN_CONTROLLER_CLI_CLEAN_STREAM_H_

#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace coxswain::cli {

// Passes text on as AppendClean makes it. A character may come in parts; it waits for the others
// until a flush.
class CleanBuffer : public std::streambuf {
 public:
  explicit CleanBuffer(std::ostream* to) : to_(to) {}
  ~CleanBuffer() override { Pass(0); }

  // Passes `text` on as it is.
  bool Put(std::string_view text);

 protected:
  std::streamsize xsputn(const char* text, std::streamsize bytes) override;
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  bool Pass(size_t kept_back);  // what has come but for the last `kept_back` bytes

  std::ostream* const to_;
  std::string text_;  // not passed on yet
};

class CleanStream : public std::ostream {
 public:
  explicit CleanStream(std::ostream* to) : std::ostream(nullptr), buffer_(to) { rdbuf(&buffer_); }

 private:
  CleanBuffer buffer_;
};

// What cox itself tells a terminal to do, through a CleanStream or beside it.
enum class Draw {
  kLineStart,        // the next text overwrites the line
  kClearRestOfLine,  // behind what was written
  kClearScreen,      // and begin at its top
};
std::ostream& operator<<(std::ostream& out, Draw draw);

// Text of cox in which colours are (ESC [ digits m), all else cleaned.
struct Coloured {
  std::string_view text;
};
std::ostream& operator<<(std::ostream& out, const Coloured& coloured);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CLEAN_STREAM_H_
