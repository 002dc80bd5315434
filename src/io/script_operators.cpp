#include "io/script_operators.hpp"

#include <set>
#include <string>

namespace tessera {
namespace {

// Of namespace aten, as PyTorch 1.13 and later know them. `warn` is here because PyTorch's own
// layers hold it; it is taken out before a network is run. Random ones are here so that they are
// refused later, by the sentence that says why. Not here, besides all that touch files: `empty` and
// its kind, which show what lay in memory before; `set_` and `resize_`, which change what a tensor
// is; switches of the whole program (`manual_seed`, `set_grad_enabled`).
constexpr const char* kTensorOperators =
    "Bool Complex ComplexImplicit Delete Float FloatImplicit Int IntImplicit ScalarImplicit Size "
    "__and__ __contains__ __derive_index __getitem__ __iand__ __ilshift__ __interpolate __ior__ "
    "__irshift__ __is__ __isnot__ __ixor__ __lshift__ __not__ __or__ __range_length "
    "__round_to_zero_floordiv __rshift__ __upsample __upsample_bilinear __upsample_nearest "
    "__xor__ _adaptive_avg_pool2d _adaptive_avg_pool3d _batch_norm_impl_index _cast_Byte "
    "_cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _convolution "
    "_convolution_mode _dim_arange _get_tracing_state _infer_size _list_to_tensor _log_softmax "
    "_native_multi_head_attention _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned "
    "_no_grad_embedding_renorm_ _pack_padded_sequence _pad_circular _pad_enum "
    "_pad_packed_sequence _safe_softmax _scaled_dot_product_attention _set_item _shape_as_tensor "
    "_size_if_not_equal _softmax _tensor_to_list _to_cpu _transformer_encoder_layer_fwd "
    "_trilinear _unique _unique2 _unsafe_view _unwrap_optional _upsample_bicubic2d_aa "
    "_upsample_bilinear2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d "
    "_upsample_nearest_exact3d _weight_norm abs abs_ absolute absolute_ acos acos_ acosh acosh_ "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d add add_ addbmm addbmm_ addcdiv addcdiv_ addcmul "
    "addcmul_ addmm addmm_ addmv addmv_ addr addr_ adjoint affine_grid_generator alias all "
    "allclose alpha_dropout alpha_dropout_ amax amin aminmax angle any append arange arccos "
    "arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_ "
    "arctanh arctanh_ argmax argmin argsort argwhere as_strided as_strided_scatter as_tensor asin "
    "asin_ asinh asinh_ atan atan2 atan2_ atan_ atanh atanh_ atleast_1d atleast_2d atleast_3d "
    "avg_pool1d avg_pool2d avg_pool3d baddbmm baddbmm_ bartlett_window batch_norm bernoulli "
    "bernoulli_ bilinear bin binary_cross_entropy binary_cross_entropy_with_logits bincount "
    "binomial bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_ bitwise_not "
    "bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_ bitwise_xor "
    "bitwise_xor_ blackman_window block_diag bmm broadcast_tensors broadcast_to bucketize "
    "capitalize cartesian_prod cat cauchy_ cdist ceil ceil_ celu celu_ center chain_matmul chalf "
    "channel_shuffle cholesky cholesky_inverse cholesky_solve chr chunk clamp clamp_ clamp_max "
    "clamp_max_ clamp_min clamp_min_ clear clip clip_ clone col2im column_stack combinations "
    "complex concat concatenate conj conj_physical conj_physical_ constant_pad_nd contiguous "
    "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution "
    "copy copy_ copysign copysign_ corrcoef cos cos_ cosh cosh_ cosine_embedding_loss "
    "cosine_similarity count count_nonzero cov cpu cross cross_entropy_loss ctc_loss cummax "
    "cummin cumprod cumprod_ cumsum cumsum_ cumulative_trapezoid data deg2rad deg2rad_ degrees "
    "dense_dim det detach detach_ device diag diag_embed diagflat diagonal diagonal_scatter dict "
    "diff digamma digamma_ dim dim_arange dist div div_ divide divide_ divmod dot dropout "
    "dropout_ dsplit dstack einsum element_size elu elu_ embedding embedding_bag endswith eq eq_ "
    "equal erf erf_ erfc erfc_ erfinv erfinv_ exp exp2 exp2_ exp_ expand expand_as expandtabs "
    "expm1 expm1_ exponential_ extend eye fabs factorial feature_alpha_dropout "
    "feature_alpha_dropout_ feature_dropout feature_dropout_ fft_fft fft_fft2 fft_fftfreq "
    "fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn "
    "fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft "
    "fft_rfft2 fft_rfftfreq fft_rfftn fill fill_ fill_diagonal_ find fix fix_ flatten flip fliplr "
    "flipud float_power float_power_ floor floor_ floor_divide floor_divide_ floordiv fmax fmin "
    "fmod fmod_ format frac frac_ fractional_max_pool2d fractional_max_pool3d frexp "
    "frobenius_norm full full_like gamma gather gcd gcd_ ge ge_ gelu gelu_ geometric_ ger get "
    "get_device glu gradient greater greater_ greater_equal greater_equal_ grid_sampler "
    "grid_sampler_2d grid_sampler_3d group_norm gru gru_cell gt gt_ hamming_window hann_window "
    "hardshrink hardsigmoid hardsigmoid_ hardswish hardswish_ hardtanh hardtanh_ hash heaviside "
    "heaviside_ hex hinge_embedding_loss histc hsplit hstack huber_loss hypot hypot_ i0 i0_ "
    "igamma igamma_ igammac igammac_ im2col imag index index_add index_add_ index_copy "
    "index_copy_ index_fill index_fill_ index_put index_put_ index_reduce index_reduce_ "
    "index_select indices inner insert instance_norm inverse is_autocast_cpu_enabled "
    "is_autocast_enabled is_complex is_conj is_contiguous is_floating_point is_grad_enabled "
    "is_inference is_neg is_nonzero is_same_size is_scripting is_signed isalnum isalpha isclose "
    "isdecimal isdigit isfinite isidentifier isin isinf islower isnan isneginf isnumeric isposinf "
    "isprintable isreal isspace istft istitle isupper item items join kaiser_window keys kl_div "
    "kron kthvalue l1_loss layer_norm lcm lcm_ ldexp ldexp_ le le_ leaky_relu leaky_relu_ len "
    "lerp lerp_ less less_ less_equal less_equal_ lgamma lgamma_ linalg_cholesky "
    "linalg_cholesky_ex linalg_cond linalg_cross linalg_det linalg_diagonal linalg_eig "
    "linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv "
    "linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu "
    "linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve linalg_matmul linalg_matrix_exp "
    "linalg_matrix_norm linalg_matrix_power linalg_matrix_rank linalg_multi_dot linalg_norm "
    "linalg_pinv linalg_qr linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular "
    "linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve linalg_vander linalg_vecdot "
    "linalg_vector_norm linear linspace list ljust log log10 log10_ log1p log1p_ log2 log2_ log_ "
    "log_normal_ log_sigmoid log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and "
    "logical_and_ logical_not logical_not_ logical_or logical_or_ logical_xor logical_xor_ logit "
    "logit_ logspace logsumexp lower lstm lstm_cell lstrip lt lt_ lu_solve lu_unpack mH mT "
    "margin_ranking_loss masked_fill masked_fill_ masked_scatter masked_scatter_ masked_select "
    "mathremainder matmul matrix_H matrix_exp matrix_power max max_pool1d max_pool1d_with_indices "
    "max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool2d "
    "max_unpool3d maximum mean median meshgrid min minimum mish mish_ mm mode modf moveaxis "
    "movedim mse_loss msort mul mul_ multi_margin_loss multilabel_margin_loss multinomial "
    "multiply multiply_ mv mvlgamma mvlgamma_ nan_to_num nan_to_num_ nanmean nanmedian nansum "
    "narrow native_batch_norm native_channel_shuffle native_dropout native_group_norm "
    "native_layer_norm ne ne_ neg neg_ negative negative_ new_full new_ones new_zeros nextafter "
    "nextafter_ nll_loss nll_loss2d nll_loss_nd nonzero nonzero_numpy norm norm_except_dim normal "
    "normal_ not_equal not_equal_ nuclear_norm numel numpy_T oct one_hot ones ones_like ord outer "
    "pad pad_sequence pairwise_distance partition pdist percentFormat permute pinverse "
    "pixel_shuffle pixel_unshuffle poisson poisson_nll_loss polar polygamma polygamma_ pop "
    "popitem positive pow pow_ prelu prod promote_types put_ qr rad2deg rad2deg_ radians rand "
    "rand_like randint randint_like randn randn_like random_ randperm range ravel real reciprocal "
    "reciprocal_ reflection_pad1d reflection_pad2d reflection_pad3d relu relu6 relu6_ relu_ "
    "remainder remainder_ remove renorm renorm_ repeat repeat_interleave replace "
    "replication_pad1d replication_pad2d replication_pad3d reshape reshape_as resolve_conj "
    "resolve_neg result_type reverse rfind rindex rjust rms_norm rnn_relu rnn_relu_cell rnn_tanh "
    "rnn_tanh_cell roll rot90 round round_ row_stack rpartition rrelu rrelu_ rsplit rsqrt rsqrt_ "
    "rstrip rsub scalar_tensor scaled_dot_product_attention scatter scatter_ scatter_add "
    "scatter_add_ scatter_reduce scatter_reduce_ searchsorted segment_reduce select "
    "select_scatter selu selu_ setdefault sgn sgn_ sigmoid sigmoid_ sign sign_ signbit silu silu_ "
    "sin sin_ sinc sinc_ sinh sinh_ size slice slice_scatter slogdet smooth_l1_loss "
    "soft_margin_loss softmax softplus softshrink sort sorted special_airy_ai special_bessel_j0 "
    "special_bessel_j1 special_bessel_y0 special_bessel_y1 special_chebyshev_polynomial_t "
    "special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w "
    "special_digamma special_entr special_erf special_erfc special_erfcx special_erfinv "
    "special_exp2 special_expit special_expm1 special_gammainc special_gammaincc special_gammaln "
    "special_hermite_polynomial_h special_hermite_polynomial_he special_i0 special_i0e special_i1 "
    "special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p special_log1p "
    "special_log_ndtr special_log_softmax special_logit special_logsumexp "
    "special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 "
    "special_modified_bessel_k1 special_multigammaln special_ndtr special_ndtri special_polygamma "
    "special_psi special_round special_scaled_modified_bessel_k0 "
    "special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t "
    "special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v "
    "special_shifted_chebyshev_polynomial_w special_sinc special_softmax "
    "special_spherical_bessel_j0 special_xlog1py special_xlogy special_zeta split "
    "split_with_sizes splitlines sqrt sqrt_ square square_ squeeze squeeze_ stack startswith std "
    "std_mean stft storage_offset str stride strip sub sub_ subtract subtract_ sum sum_to_size "
    "svd swapaxes swapcase swapdims sym_numel sym_size sym_stride symeig t t_ take take_along_dim "
    "tan tan_ tanh tanh_ tensor tensor_split tensordot threshold threshold_ tile title to "
    "to_dense to_padded_tensor topk trace transpose transpose_ trapezoid trapz triangular_solve "
    "tril tril_ tril_indices triplet_margin_loss triu triu_ triu_indices true_divide true_divide_ "
    "trunc trunc_ type_as unbind unflatten unfold uniform_ unique_consecutive unique_dim "
    "unique_dim_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze "
    "unsqueeze_ update upper upsample_bicubic2d upsample_bilinear2d upsample_linear1d "
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_nearest_exact1d "
    "upsample_trilinear3d values vander var var_mean vdot view view_as view_as_complex "
    "view_as_real vsplit vstack warn where xlogy xlogy_ zero zero_ zeros zeros_like zfill ";

// Of namespace prim, as code can name them.
constexpr const char* kPlainOperators =
    "EnumName EnumValue NumToTensor RaiseException StringIndex TupleIndex TupleUnpack abs data "
    "device dtype is_cpu is_cuda is_ipu is_maia is_meta is_mkldnn is_mps is_nested is_ort "
    "is_quantized is_sparse is_sparse_csr is_vulkan is_xla is_xpu itemsize layout max min name "
    "nbytes rangelist requires_grad shape tolist type unchecked_cast unchecked_unwrap_optional ";

std::set<std::string, std::less<>> words_of(std::string_view list) {
  std::set<std::string, std::less<>> out;
  while (!list.empty()) {
    const size_t end = list.find(' ');
    out.emplace(list.substr(0, end));
    list.remove_prefix(end + 1);  // every word has a blank behind it
  }
  return out;
}

}  // namespace

bool is_network_operator(std::string_view name) {
  static const auto tensor = words_of(kTensorOperators), plain = words_of(kPlainOperators);
  constexpr std::string_view kAten = "aten::", kPrim = "prim::";
  if (name.starts_with(kAten)) return tensor.contains(name.substr(kAten.size()));
  return name.starts_with(kPrim) && plain.contains(name.substr(kPrim.size()));
}

}  // namespace tessera
