// The rule file that `policy init` writes: it loads, and changes nothing until a rule is
// uncommented.
export const POLICY_TEMPLATE = `// Rules of this site, in Cedar. All actions: docs/policy.md
// A forbid beats every permit. With @ask it means: not without a person.
// Uncomment a rule, then: agentctl policy check FILE

// No agent reaches the network.
// forbid (principal is Agent, action == Action::"net.connect", resource);

// Agents may read the documents of this machine.
// permit (
//   principal is Agent,
//   action == Action::"file.read",
//   resource in Path::"/srv/docs"
// );

// One agent asks a person before it commits.
// @ask("a person reads the commit first")
// forbid (
//   principal == Agent::"coder",
//   action == Action::"tool.call",
//   resource == Tool::"git.commit"
// );
`;
