// SPDX-License-Identifier: Apache-2.0
//
// fmt's library, of which Debian has no static one, out of its own header: once for all targets. By
// FMT_HEADER_ONLY each of their files would have it, a third of what clang takes for one. What its
// headers declare and leave to the library is made here.
#include <fmt/format-inl.h>

namespace fmt {

template detail::locale_ref::locale_ref(const std::locale&);
template std::locale detail::locale_ref::get<std::locale>() const;
template detail::thousands_sep_result<char> detail::thousands_sep_impl<char>(detail::locale_ref);
template char detail::decimal_point_impl<char>(detail::locale_ref);

}  // namespace fmt
