// The names of the rows of the buffer table that no op of a block writes: buffers/buffer_rows.cc
// lists the rows, the planner and the engine ask for them by these names. A name is part of the
// plan's bytes. Rows that ops write have the names of the ops (buffers/activation_rows.h).
// Sizes: worker/engine/BUFFERS.md.
#ifndef COXSWAIN_COMMON_PLAN_BUFFER_NAMES_H_
#define COXSWAIN_COMMON_PLAN_BUFFER_NAMES_H_

namespace coxswain::plan::buffers {

// Flats of parameters, and what stands in for them during a sweep (shard_map.h).
inline constexpr char kWeights[] = "weights";
inline constexpr char kWeightSlots[] = "weight_slots";
inline constexpr char kExpertWeights[] = "expert_weights";
inline constexpr char kPackedSlot[] = "packed_slot";
inline constexpr char kWeightScales[] = "weight_scales";
inline constexpr char kMaster[] = "master";
inline constexpr char kGradients[] = "gradients";
inline constexpr char kGradientSlots[] = "gradient_slots";
inline constexpr char kGradientCompanions[] = "gradient_companions";

// States of optimizers (optimizer_states.h), their copy (snapshot_map.h), and what updates of
// routers move.
inline constexpr char kAdamM[] = "adam.m";
inline constexpr char kAdamV[] = "adam.v";
inline constexpr char kAdamMAbsmax[] = "adam.m_absmax";
inline constexpr char kAdamVAbsmax[] = "adam.v_absmax";
inline constexpr char kAdamMSmall[] = "adam.m_small";
inline constexpr char kAdamVSmall[] = "adam.v_small";
inline constexpr char kSnapshot[] = "snapshot";
inline constexpr char kRouterCorrections[] = "router.corrections";

// Delayed scales of operands in FP8 (fp8_history.h).
inline constexpr char kFp8History[] = "fp8.history";
inline constexpr char kFp8Expected[] = "fp8.expected";
inline constexpr char kFp8Observed[] = "fp8.observed";

// A product in float32 before it is added (gradient_sum.h); gradients of activations, which blocks
// use in turn (buffers/gradient_rows.h).
inline constexpr char kGradientTerm[] = "gradient_term";
inline constexpr char kDres[] = "dres";
inline constexpr char kDnorm[] = "dnorm";
inline constexpr char kDshared[] = "dshared";
inline constexpr char kDqkv[] = "dqkv";
inline constexpr char kDatt[] = "datt";
inline constexpr char kDswiglu[] = "dswiglu";
inline constexpr char kDheads[] = "dheads";
inline constexpr char kDrouted[] = "drouted";
inline constexpr char kDexperts[] = "dexperts";
inline constexpr char kDlogits[] = "dlogits";
inline constexpr char kDscores[] = "dscores";
inline constexpr char kDweights[] = "dweights";

// The head, and the embedding.
inline constexpr char kHeadLogits[] = "head.logits";
inline constexpr char kHeadX[] = "head.x";
inline constexpr char kHeadDx[] = "head.dx";
inline constexpr char kHeadLoraH[] = "head.lora_h";
inline constexpr char kHeadLoss[] = "head.loss";
inline constexpr char kHeadNll[] = "head.nll";
inline constexpr char kHeadStatistics[] = "head.statistics";
inline constexpr char kHeadScores[] = "head.scores";
inline constexpr char kHeadDscores[] = "head.dscores";
inline constexpr char kHeadWeights[] = "head.weights";
inline constexpr char kEmbeddingLoraH[] = "embedding.lora_h";
inline constexpr char kEmbeddingLoraDh[] = "embedding.lora_dh";
inline constexpr char kEmbeddingRows[] = "embedding.rows";
inline constexpr char kEmbeddingIds[] = "embedding.ids";

// A micro-step's tokens and rows.
inline constexpr char kBatchTokens[] = "batch.tokens";
inline constexpr char kBatchPositions[] = "batch.positions";
inline constexpr char kBatchRopeRows[] = "batch.rope_rows";
inline constexpr char kBatchLabels[] = "batch.labels";
inline constexpr char kBatchRows[] = "batch.rows";
inline constexpr char kBatchBins[] = "batch.bins";
inline constexpr char kBatchBinPositions[] = "batch.bin_positions";
inline constexpr char kBatchRowBins[] = "batch.row_bins";
inline constexpr char kBatchRowPositions[] = "batch.row_positions";
inline constexpr char kBatchFirstBin[] = "batch.first_bin";
inline constexpr char kBatchCuSeqlens[] = "batch.cu_seqlens";
inline constexpr char kBatchPadding[] = "batch.padding";

// Losses of documents (document_loss.h) and of policies (policy_loss.h).
inline constexpr char kDocumentsRows[] = "documents.rows";
inline constexpr char kDocumentsSums[] = "documents.sums";
inline constexpr char kDocumentsReferences[] = "documents.references";
inline constexpr char kDocumentsValues[] = "documents.values";
inline constexpr char kDocumentsCoefficients[] = "documents.coefficients";
inline constexpr char kPolicyOldLogps[] = "policy.old_logps";
inline constexpr char kPolicyAdvantages[] = "policy.advantages";
inline constexpr char kPolicyReferences[] = "policy.references";
inline constexpr char kPolicyParts[] = "policy.parts";

// Routers of experts (routers.h).
inline constexpr char kRouterLoraDh[] = "router.lora_dh";
inline constexpr char kRouterUse[] = "router.use";
inline constexpr char kRouterSums[] = "router.sums";
inline constexpr char kRouterLosses[] = "router.losses";
inline constexpr char kRouterFactors[] = "router.factors";

// Answers: keys and values of all layers, and what is drawn.
inline constexpr char kCacheKeys[] = "cache.keys";
inline constexpr char kCacheValues[] = "cache.values";
inline constexpr char kCacheSequences[] = "cache.sequences";
inline constexpr char kGeneratedIds[] = "generated.ids";

// Operands in FP8 that all linears use in turn.
inline constexpr char kFp8X[] = "fp8.x";
inline constexpr char kFp8XTurned[] = "fp8.x_turned";
inline constexpr char kFp8Dy[] = "fp8.dy";
inline constexpr char kFp8DyTurned[] = "fp8.dy_turned";
inline constexpr char kFp8Weight[] = "fp8.weight";
// Amaxes that are known from who stores the operand (fp8_amaxes.h).
inline constexpr char kFp8Amaxes[] = "fp8.amaxes";
// Of weights whose codes are gathered (fp8_gather.h).
inline constexpr char kFp8WeightAmaxes[] = "fp8.weight_amaxes";
inline constexpr char kFp8WeightScales[] = "fp8.weight_scales";
inline constexpr char kFp8Constants[] = "fp8.constants";

// DoRA's columns, scalars, and a record for each trained tensor.
inline constexpr char kDoraSquares[] = "dora.squares";
inline constexpr char kDoraNorm[] = "dora.norm";
inline constexpr char kDoraFactor[] = "dora.factor";
inline constexpr char kScalars[] = "scalars";
inline constexpr char kOptimizerTensors[] = "optimizer.tensors";
inline constexpr char kNormTensors[] = "norm.tensors";
inline constexpr char kNormChunks[] = "norm.chunks";
inline constexpr char kVerifiedValues[] = "verified.values";
inline constexpr char kVerifiedNorms[] = "verified.norms";
inline constexpr char kVerifiedBits[] = "verified.bits";
inline constexpr char kVerifiedSums[] = "verified.sums";

// Of the kernels, whose need the planner bounds and the engine knows.
inline constexpr char kScratch[] = "scratch";

// Tables of a rope (buffers/buffer_rows.h, RopeRow): the last part of their names.
inline constexpr char kCosines[] = "cos";
inline constexpr char kSines[] = "sin";
inline constexpr char kQueryScales[] = "query_scale";

}  // namespace coxswain::plan::buffers

#endif  // COXSWAIN_COMMON_PLAN_BUFFER_NAMES_H_
