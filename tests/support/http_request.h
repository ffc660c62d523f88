// One request over HTTP, from a test to a server of this process.
#ifndef COXSWAIN_TESTS_SUPPORT_HTTP_REQUEST_H_
#define COXSWAIN_TESTS_SUPPORT_HTTP_REQUEST_H_

#include <string>

namespace coxswain::support {

// A socket that is connected with `address`, "127.0.0.1:7180"; the caller closes it.
int Dial(const std::string& address);

// Sends the bytes of `request` as they are and returns all that comes until the server closes.
std::string Ask(const std::string& address, const std::string& request);

// The whole reply, headers too, to GET of /metrics.
std::string Scrape(const std::string& address);

}  // namespace coxswain::support

#endif  // COXSWAIN_TESTS_SUPPORT_HTTP_REQUEST_H_
