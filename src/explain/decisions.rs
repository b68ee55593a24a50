//! `-vv`: what was decided for a run, each with who decided it, a line each.
//!
//! Names only: of variables never a value.

use crate::host::Host;
use crate::plan::Plan;
use crate::plan::base::secret_above;
use crate::plan::view::Rule;
use crate::policy::{Network, Origin, Policy};
use crate::seccomp;
use crate::stage::handoff;

use super::rules::Asking;

/// Every rule of the view, the network, single settings, variables and what the filter refuses.
#[must_use]
pub fn decisions(plan: &Plan, policy: &Policy, host: &Host) -> Vec<String> {
    let from = |key: &str| policy.origins.get(key).unwrap_or(&Origin::Default);
    let mut lines = Vec::new();
    let network = match plan.network {
        Network::Off => "off",
        Network::Host => "host",
    };
    lines.push(format!("network: {network} from {}", from("allow_network")));
    lines.extend(policy.origins.iter().map(|(key, origin)| format!("setting: {key} from {origin}")));
    lines.extend(policy.accepted_gaps.iter().map(|(gap, origin)| format!("gap allowed: {gap} from {origin}")));
    if plan.backend.filters() {
        view(plan, policy, host, &mut lines);
        let groups: Vec<_> = seccomp::groups(handoff::filter(plan)).map(|group| group.name).collect();
        lines.push(format!("system calls refused: {}", groups.join(", ")));
    }
    for entry in policy.env.deciding() {
        lines.push(format!("variables: '{}' from {}", entry.rule.subject(), entry.origin));
    }
    let environment = &plan.environment;
    for (what, names) in [("passed", &environment.kept), ("set", &environment.set)] {
        let names: Vec<_> = names.iter().map(|name| name.display().to_string()).collect();
        lines.push(format!("variables {what} ({}): {}", names.len(), names.join(" ")));
    }
    for dropped in &environment.dropped {
        lines.push(format!("variable dropped: {}: {}", dropped.name.display(), dropped.reason));
    }
    lines
}

fn view(plan: &Plan, policy: &Policy, host: &Host, lines: &mut Vec<String>) {
    let asking = Asking { plan, policy, host };
    for (at, rule) in plan.rules.all() {
        // Ways to something that has a line of its own.
        if matches!(rule, Rule::Folder | Rule::Link { .. } | Rule::Pin) {
            continue;
        }
        let (word, _) = super::rules::word(rule);
        let path = at.display();
        let given = asking.given(rule, at);
        for given in &given {
            let written =
                if at.as_os_str() == given.path.as_str() { String::new() } else { format!(", as '{}'", given.path) };
            lines.push(format!("rule: {word} '{path}' from {}{written}", given.from));
        }
        if given.is_empty() {
            let by = match rule {
                Rule::Hidden => policy.origins.get("cwd_allow_hidden").unwrap_or(&Origin::Default),
                _ => &Origin::Default,
            };
            let what = secret_above(at).filter(|_| rule.hides()).map(|(_, secret)| format!(" ({})", secret.what));
            lines.push(format!("rule: {word} '{path}' from {by}{}", what.unwrap_or_default()));
        }
    }
}
