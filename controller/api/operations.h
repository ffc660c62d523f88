// The operations of the Jobs service: validate -> decide -> persist -> apply ->
// reply. All run on the loop; none waits. Their requests have passed CheckArguments (arguments.h).
#ifndef COXSWAIN_CONTROLLER_API_OPERATIONS_H_
#define COXSWAIN_CONTROLLER_API_OPERATIONS_H_

#include <memory>

#include "common/access/principal.h"
#include "controller/api/context.h"

namespace coxswain::api {

// A user's job is that user's, an operator's is operators'.
void Submit(Context& context, const v1::SubmitRequest& request, const access::Principal& caller,
            Reply<v1::Job> reply);
void Validate(Context& context, const v1::ValidateRequest& request,
              Reply<v1::ValidateResponse> reply);
void Plan(Context& context, const v1::PlanRequest& request, const access::Principal& caller,
          Gone gone, Reply<v1::PlanResponse> reply);
void Get(Context& context, const v1::GetRequest& request, Reply<v1::Job> reply);
// A user gets own jobs.
void List(Context& context, const v1::ListRequest& request, const access::Principal& caller,
          Reply<v1::ListResponse> reply);
void Cancel(Context& context, const v1::CancelRequest& request, Reply<v1::Job> reply);
void Pause(Context& context, const v1::PauseRequest& request, Reply<v1::Job> reply);
void Resume(Context& context, const v1::ResumeRequest& request, Reply<v1::Job> reply);
// A user learns what workers there are and which work for own jobs.
void ListWorkers(Context& context, const v1::ListWorkersRequest& request,
                 const access::Principal& caller, Reply<v1::ListWorkersResponse> reply);
void Cordon(Context& context, const v1::CordonRequest& request, Reply<v1::CordonResponse> reply);
void Uncordon(Context& context, const v1::UncordonRequest& request,
              Reply<v1::UncordonResponse> reply);
void Explain(Context& context, const v1::ExplainRequest& request, Reply<v1::ExplainResponse> reply);
// Its first line: why the job is in its state.
std::string ExplainState(Context& context, const driver::JobDriver& job);
void ListArtifacts(Context& context, const v1::ListArtifactsRequest& request,
                   Reply<v1::ListArtifactsResponse> reply);
// A user's file is that user's, an operator's is operators'. The bytes: upload_receiver.h.
void BeginUpload(Context& context, const v1::BeginUploadRequest& request,
                 const access::Principal& caller, Reply<v1::BeginUploadResponse> reply);
void Dump(Context& context, const v1::DumpRequest& request, Reply<v1::DumpResponse> reply);
void Delete(Context& context, const v1::DeleteRequest& request, Reply<v1::DeleteResponse> reply);
void Version(Context& context, const v1::VersionRequest& request, Reply<v1::BuildInfo> reply);
void CreateToken(Context& context, const v1::CreateTokenRequest& request,
                 Reply<v1::CreateTokenResponse> reply);
void ListTokens(Context& context, const v1::ListTokensRequest& request,
                Reply<v1::ListTokensResponse> reply);
void RevokeToken(Context& context, const v1::RevokeTokenRequest& request,
                 Reply<v1::RevokeTokenResponse> reply);

void Watch(Context& context, const v1::WatchRequest& request,
           std::shared_ptr<Sink<v1::JobEvent>> sink);
void Logs(Context& context, const v1::LogsRequest& request,
          std::shared_ptr<Sink<v1::LogLine>> sink);
void Inspect(Context& context, const v1::InspectRequest& request,
             std::shared_ptr<Sink<v1::InspectResponse>> sink);
void Fetch(Context& context, const v1::FetchRequest& request,
           std::shared_ptr<Sink<v1::FetchResponse>> sink);

// Job.owner of what `caller` submits: empty for an operator.
std::string OwnerOf(const access::Principal& caller);

// The directory that relative paths of a job file are resolved against: that of `yaml_path` when it
// is absolute, else the controller's working directory.
std::string BaseDirectory(const std::string& yaml_path);

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_OPERATIONS_H_
