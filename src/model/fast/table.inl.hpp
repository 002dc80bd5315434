// The set as a table; included last.

Kernels make_table(const char* name) {
  Kernels k;
  k.name = name;
  k.pack_forward = pack_forward;
  k.pack_backward = pack_backward;
  k.conv_forward = conv_forward;
  k.pool_forward = pool_forward;
  k.batch_moments = batch_moments;
  k.batch_pool_forward = batch_pool_forward;
  k.batch_pool_sums = batch_pool_sums;
  k.batch_input_grad = batch_input_grad;
  k.pool_backward = pool_backward;
  k.conv_weight_grad = conv_weight_grad;
  k.conv_input_grad = conv_input_grad;
  k.unpack_grad = unpack_grad;
  k.linear_forward = linear_forward;
  k.linear_weight_grad = linear_weight_grad;
  k.linear_input_grad = linear_input_grad;
  k.relu_backward = relu_backward;
  k.transpose = transpose;
  k.norm_forward = norm_forward;
  k.norm_backward = norm_backward;
  k.gelu_forward = gelu_forward;
  k.gelu_backward = gelu_backward;
  k.add_rows = add_rows;
  k.add_bias = add_bias;
  k.pack_linear = pack_linear;
  k.packed_linear = packed_linear;
  k.attention_forward = attention_forward;
  k.attention_backward = attention_backward;
  k.side = kWide;
  k.side_conv = side_conv;
  k.gru_pack_forward = gru_pack_forward;
  k.gru_forward_step = gru_forward_step;
  k.gru_pack_backward = gru_pack_backward;
  k.gru_backward_step = gru_backward_step;
  k.gru_input_grad = gru_input_grad;
  k.gru_weight_grad = gru_weight_grad;
  k.gru_bias_grad = gru_bias_grad;
  k.gru_panel = gru_panel;
  return k;
}

#undef TESSERA_BY_WIDTH
#undef TESSERA_INLINE
