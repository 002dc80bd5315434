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
  return k;
}

#undef TESSERA_INLINE
