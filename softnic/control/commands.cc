// SPDX-License-Identifier: Apache-2.0
#include "softnic/control/commands.h"

#include "softnic/control/control.h"

namespace peal::softnic {

Outcome AllocatePd::apply(Control& control) const { return control.allocate_pd(); }
Outcome FreePd::apply(Control& control) const { return control.free_pd(number); }
Outcome RegisterMemory::apply(Control& control) const { return control.register_memory(config); }
Outcome DeregisterMemory::apply(Control& control) const {
  return control.deregister_memory(number);
}
Outcome CreateCq::apply(Control& control) const { return control.create_cq(config); }
Outcome DestroyCq::apply(Control& control) const { return control.destroy_cq(number); }
Outcome CqProduced::apply(Control& control) const {
  Outcome outcome;
  outcome.produced = control.cq_produced(number);
  return outcome;
}
Outcome CreateSrq::apply(Control& control) const { return control.create_srq(config); }
Outcome DestroySrq::apply(Control& control) const { return control.destroy_srq(number); }
Outcome CreateQp::apply(Control& control) const { return control.create_qp(config); }
Outcome ModifyQp::apply(Control& control) const { return control.modify_qp(number, from, to); }
Outcome QueryQp::apply(Control& control) const {
  Outcome outcome;
  outcome.refusal = control.query_qp(number, &outcome.attributes);
  return outcome;
}
Outcome DestroyQp::apply(Control& control) const { return control.destroy_qp(number); }
Outcome CreateDcTarget::apply(Control& control) const { return control.create_dc_target(config); }
Outcome DestroyDcTarget::apply(Control& control) const { return control.destroy_dc_target(number); }
Outcome AttachUar::apply(Control& control) const { return control.attach_uar(page); }
Outcome DetachUar::apply(Control& control) const { return control.detach_uar(number); }
Outcome QueryViolations::apply(Control& control) const {
  Outcome outcome;
  outcome.violations = control.violations();
  return outcome;
}

}  // namespace peal::softnic
