// SPDX-License-Identifier: Apache-2.0
//
// What tests of jobs include: peal's API too, which takes a second to read, precompiled
// (tests/test.bzl). Tests include what they use all the same.
#pragma once

#include "peal/peal.h"
#include "tests/support/often.h"
