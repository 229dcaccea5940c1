#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# by_record.sh PROGRAM [ARGUMENTS]: a test on a software NIC that goes by doorbell records.
PEAL_SOFTNIC_DOORBELL=record exec "$@"
