// Mixed precision is torch's own: its library has the kernels for XPU's key in every build. This file
// takes the place of the shared one, whose kernels would be a second registration.
