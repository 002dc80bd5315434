// The set as a table; included last.

Kernels make_table(const char* name) {
  Kernels k;
  k.name = name;
  k.pack_forward = pack_forward;
  k.pack_backward = pack_backward;
  k.conv_forward = conv_forward;
  k.pool_forward = pool_forward;
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
  k.attention_forward = attention_forward;
  k.attention_backward = attention_backward;
  k.gru_forward_step = gru_forward_step;
  k.gru_backward_step = gru_backward_step;
  return k;
}

#undef TESSERA_BY_WIDTH
#undef TESSERA_INLINE
