#include "common/net/tls_credentials.h"

#include <map>
#include <tuple>

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "common/mutex.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;
using Provider = std::shared_ptr<grpc::experimental::CertificateProviderInterface>;

constexpr unsigned kRefreshSeconds = 1;

using OwnedBio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using OwnedCertificate = std::unique_ptr<X509, decltype(&X509_free)>;
using OwnedKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

OwnedBio BioOf(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free};
}

absl::StatusOr<OwnedCertificate> ReadCertificate(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  OwnedCertificate certificate(PEM_read_bio_X509(BioOf(text).get(), nullptr, nullptr, nullptr),
                               &X509_free);
  if (certificate != nullptr) return certificate;
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   " holds no certificate in PEM form: give a file that begins with "
                   "-----BEGIN CERTIFICATE-----"));
}

absl::Status CheckPair(const TlsFiles& files) {
  ASSIGN_OR_RETURN(const OwnedCertificate certificate, ReadCertificate(files.cert));
  ASSIGN_OR_RETURN(const std::string text, ReadFile(files.key));
  const OwnedKey key(PEM_read_bio_PrivateKey(BioOf(text).get(), nullptr, nullptr, nullptr),
                     &EVP_PKEY_free);
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.key, " holds no private key in PEM form without a password"));
  }
  if (X509_check_private_key(certificate.get(), key.get()) == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the key in ", files.key,
                                                 " is not that of the certificate in ", files.cert,
                                                 ": give the two that were made together"));
}

absl::Status Check(const TlsFiles& files) {
  if (!files.cert.empty()) RETURN_IF_ERROR(CheckPair(files));
  return files.ca.empty() ? absl::OkStatus() : ReadCertificate(files.ca).status();
}

// A provider has a thread that looks at its files. A process dials a thousand workers with the same
// files: they share one, which ends with the last credentials that use it.
class SharedProviders {
 public:
  Provider Of(const TlsFiles& files) {
    MutexLock lock(mu_);
    std::weak_ptr<grpc::experimental::CertificateProviderInterface>& kept =
        providers_[{files.cert, files.key, files.ca}];
    if (Provider provider = kept.lock(); provider != nullptr) return provider;
    Provider provider = std::make_shared<FileWatcherCertificateProvider>(files.key, files.cert,
                                                                         files.ca, kRefreshSeconds);
    kept = provider;
    return provider;
  }

 private:
  Mutex mu_;
  std::map<std::tuple<std::string, std::string, std::string>,
           std::weak_ptr<grpc::experimental::CertificateProviderInterface>>
      providers_ ABSL_GUARDED_BY(mu_);
};

Provider ProviderOf(const TlsFiles& files) {
  static auto* const providers = new SharedProviders();
  return providers->Of(files);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TlsServerCredentials(
    const TlsFiles& files) {
  RETURN_IF_ERROR(Check(files));
  grpc::experimental::TlsServerCredentialsOptions options(ProviderOf(files));
  options.watch_identity_key_cert_pairs();
  if (!files.ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsChannelCredentials(
    const TlsFiles& files) {
  RETURN_IF_ERROR(Check(files));
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(ProviderOf(files));
  options.watch_root_certs();
  if (!files.cert.empty()) options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace coxswain
