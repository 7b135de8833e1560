// Parses a manifest into the agent it declares, with defaults, or into a list of problems with line
// and hint. adapters/manifest-dir.ts reads the files.
import { findNearest } from '../../../platform/did-you-mean.ts';
import { sha256Hex } from '../../../platform/json.ts';
import { readYaml, type YamlProblem } from '../../../platform/yaml-file.ts';
import {
  CAPABILITY_NAMES,
  findAllowedTools,
  findUndeniable,
} from '../../../policy/capabilities.ts';
import { type HostRule, matchesHost, parseHostRule } from '../../../policy/hosts.ts';
import { NEVER_FOR_AGENTS, type Resources, trimSlash } from '../../../policy/manifest-rules.ts';
import { canonicalPath, isWithin } from '../../../policy/paths.ts';
import type { AgentView, Limits } from '../../../wire/agentd.ts';
import { Manifest, REPLICAS_DEFAULT } from '../../../wire/manifest.ts';
import type { FileProblem } from '../../../wire/primitives.ts';
import { type ComposedPersona, composePersona, describeMissing } from '../personas/compose.ts';
import { NO_PERSONAS, type PersonaLibrary, toLayerRef } from '../personas/library.ts';
import { lintAgentTools } from '../personas/lint.ts';

export const manifestSizeBytesMax = 262_144;

/** An agent as its manifest declares it. */
export type DeclaredAgent = {
  name: string;
  description: string;
  linuxUser: string;
  model: string;
  replicas: number;
  /** Composed of its layers, whose files and hashes `composed` lists. */
  persona: string;
  /** Absent in what an earlier release stored. */
  composed?: Omit<ComposedPersona, 'text'>;
  /** Allowed capabilities minus denied ones. */
  capabilities: string[];
  /** The tools of those capabilities and those every agent has, sorted. */
  tools: string[];
  /** For tasks that set no limits. */
  limits: Limits;
  budget: AgentView['budget'];
  /** null if unset; see wire/manifest.ts for the meaning. */
  team: { delegateTo: string[] | null; talkTo: string[] | null };
  resources: Resources;
  manifest: Manifest;
  /** SHA-256 of the file's text. */
  hash: string;
};

export type ManifestResult =
  | { ok: true; agent: DeclaredAgent; warnings: FileProblem[] }
  | { ok: false; problems: FileProblem[] };

type ManifestIssue = { path: PropertyKey[]; message: string; hint: string };

export const hashPersona = ({
  persona,
  composed,
}: Pick<DeclaredAgent, 'persona' | 'composed'>): string => composed?.sha256 ?? sha256Hex(persona);

/** Built once, because a schema compiles itself on first use. */
const CheckedManifest = Manifest.superRefine((manifest, context) => {
  for (const { path, message, hint } of findIssues(manifest)) {
    context.addIssue({ code: 'custom', path, message, params: { hint } });
  }
});

export type ManifestSite = {
  /** Operator-declared tools. */
  declaredTools?: ReadonlySet<string>;
  /** The runtime's own directories, with their purpose. */
  closedDirs?: ReadonlyMap<string, string>;
  personas?: PersonaLibrary;
};

/** The site during a readManifest call, which is synchronous. */
let declared: ReadonlySet<string> = new Set();
let closed: ReadonlyMap<string, string> = new Map();
let library: PersonaLibrary = NO_PERSONAS;

export function readManifest(
  text: string,
  file: string,
  { declaredTools = new Set(), closedDirs = new Map(), personas = NO_PERSONAS }: ManifestSite = {},
): ManifestResult {
  declared = declaredTools;
  closed = closedDirs;
  library = personas;
  const sizeBytes = Buffer.byteLength(text);
  if (sizeBytes > manifestSizeBytesMax)
    return { ok: false, problems: [tooLargeProblem(file, sizeBytes)] };
  if (isEmpty(text)) return { ok: false, problems: [emptyProblem(file)] };
  const read = readYaml(text, file, CheckedManifest);
  if (!read.ok) return { ok: false, problems: read.problems.map(clarifyProblem) };
  const hash = sha256Hex(text);
  const composed = composePersona(personas, {
    agent: read.value.metadata.name,
    description: read.value.metadata.description ?? '',
    labels: read.value.metadata.labels ?? {},
    refs: read.value.spec.personas,
    inline: read.value.spec.persona,
    manifestFile: file,
    manifestHash: hash,
  });
  if (!composed.ok) return composed;
  const agent = buildAgent(read.value, hash, composed.persona);
  return { ok: true, agent, warnings: findWarnings(agent, file, personas) };
}

function findWarnings(
  { name, tools, manifest, composed }: DeclaredAgent,
  file: string,
  personas: PersonaLibrary,
): FileProblem[] {
  const denied = manifest.spec.tools?.deny ?? [];
  const refs = new Set(composed?.layers.map(({ layer }) => layer));
  const files = [...refs].flatMap((ref) => personas.files.get(ref) ?? []);
  return lintAgentTools({ name, tools, denied, file }, files);
}

export function tooLargeProblem(file: string, sizeBytes: number): FileProblem {
  return {
    file,
    line: null,
    message: `the manifest has ${sizeBytes} bytes; it may have at most ${manifestSizeBytesMax}`,
    hint: 'Move long instructions to artifacts or files that the agent reads.',
  };
}

/** Checked first, because one clear problem is better than one per missing key. */
const isEmpty = (text: string): boolean => text.split('\n').every((line) => /^\s*(#|$)/.test(line));

const emptyProblem = (file: string): FileProblem => ({
  file,
  line: null,
  message: 'the manifest is empty',
  hint: 'Remove the file, or create an agent with agentctl agent create NAME.',
});

function clarifyProblem({ reason, ...problem }: YamlProblem): FileProblem {
  if (reason !== 'second_document') return problem;
  return {
    ...problem,
    message: 'a second document starts here; a manifest declares one agent',
    hint: 'Put each agent in its own file.',
  };
}

/** Finds problems that the schema cannot express. */
function findIssues(manifest: Manifest): ManifestIssue[] {
  return [
    ...checkCapabilities(manifest),
    ...checkLinuxUser(manifest),
    ...checkPaths(manifest),
    ...checkHosts(manifest),
    ...checkSizes(manifest),
    ...checkPersonas(manifest),
  ];
}

function checkPersonas({ spec }: Manifest): ManifestIssue[] {
  const known = [...library.files.keys(), ...library.broken.keys()];
  return (spec.personas ?? []).flatMap((written, i) => {
    const ref = toLayerRef(written);
    if (known.includes(ref)) return [];
    const { message, hint } = describeMissing(ref);
    const near = findNearest(ref, known);
    const guess = near === undefined ? '' : `; did you mean ${near.replace(/^roles\//, '')}?`;
    return [{ path: ['spec', 'personas', i], message: `${message}${guess}`, hint }];
  });
}

function checkCapabilities(manifest: Manifest): ManifestIssue[] {
  const { tools, approvals } = manifest.spec;
  const unknown = new Set(findAllowedTools(manifest).unknown).difference(declared);
  const lists: [PropertyKey[], string[]][] = [
    [['spec', 'tools', 'allow'], tools?.allow ?? []],
    [['spec', 'tools', 'deny'], tools?.deny ?? []],
    [['spec', 'approvals', 'required'], approvals?.required ?? []],
  ];
  const misspelt = lists.flatMap(([path, names]) =>
    names.flatMap((name, i) => {
      if (!unknown.has(name)) return [];
      const near = findNearest(name, CAPABILITY_NAMES);
      const known = `Known capabilities: ${CAPABILITY_NAMES.join(', ')}.`;
      const hint = near === undefined ? known : `Did you mean ${near}?`;
      return [{ path: [...path, i], message: `unknown capability ${name}`, hint }];
    }),
  );
  const deny = tools?.deny ?? [];
  const undeniable = findUndeniable(deny).map((name) => ({
    path: ['spec', 'tools', 'deny', deny.indexOf(name)],
    message: `${name} cannot be denied: without task.finish no task of this agent could end`,
    hint: 'Deny the other tools by name.',
  }));
  return [...misspelt, ...undeniable];
}

function checkLinuxUser({ metadata, spec }: Manifest): ManifestIssue[] {
  if (spec.linuxUser === 'root') {
    return [
      {
        path: ['spec', 'linuxUser'],
        message: 'an agent cannot run as root',
        hint: `Omit it (default: agent-${metadata.name}) or name another user.`,
      },
    ];
  }
  const user = spec.linuxUser ?? defaultLinuxUser(metadata.name);
  if (user.length <= 32) return [];
  return [
    {
      path: ['metadata', 'name'],
      message: `the Linux user ${user} would have more than 32 characters`,
      hint: 'Shorten the name, or set spec.linuxUser.',
    },
  ];
}

/** A path in a non-canonical spelling could match another path than intended, or none. */
function checkPaths({ spec }: Manifest): ManifestIssue[] {
  return Object.entries(spec.filesystem ?? {}).flatMap(([key, paths]) =>
    (paths ?? []).flatMap((written, i) => {
      const path = ['spec', 'filesystem', key, i];
      const found = canonicalPath(trimSlash(written));
      if (!found.ok) {
        const problem = found.problem.replace(/^it /, '');
        return [{ path, message: `${written} ${problem}`, hint: 'Write the full path.' }];
      }
      if (/[*?]/.test(found.path)) {
        const hint = 'Name the directory: it includes everything below.';
        return [{ path, message: `${written} is a pattern; only paths are allowed`, hint }];
      }
      if (key === 'deny') return [];
      const own = [...closed].find(([root]) => isWithin(found.path, root));
      if (own !== undefined) {
        const message = `agents never get access to ${own[0]}: it is ${own[1]}`;
        const hint = 'Remove it. Copy what agents need to a directory of its own.';
        return [{ path, message, hint }];
      }
      const never = NEVER_FOR_AGENTS.find((root) => isWithin(found.path, root));
      if (never === undefined) return [];
      const hint = 'Remove it; every agent has its own home in its box.';
      return [{ path, message: `agents never get access to ${never}`, hint }];
    }),
  );
}

/** A host rule that can never match would look like a permission. */
function checkHosts({ spec }: Manifest): ManifestIssue[] {
  const { allow = [], change = {} } = spec.network ?? {};
  const written: [PropertyKey, string][] = [
    ...allow.map((host, i): [PropertyKey, string] => [i, host]),
    ...Object.keys(change).map((host): [PropertyKey, string] => [host, host]),
  ];
  return written.flatMap(([key, host]) => {
    const path = ['spec', 'network', typeof key === 'number' ? 'allow' : 'change', key];
    const rule = parseHostRule(host);
    if ('problem' in rule) {
      const hint = 'Write it as github.com, *.github.com or registry.local:5000.';
      return [{ path, message: `${host}: ${rule.problem}`, hint }];
    }
    if (typeof key === 'number' || isAllowed(rule.value, allow)) return [];
    const message = `${host} is in network.change, but network.allow does not include it`;
    return [{ path, message, hint: `Add ${host} to network.allow, or remove it here.` }];
  });
}

/** Returns true if one entry includes every host and port of the rule. */
function isAllowed({ pattern, ports }: HostRule, allow: readonly string[]): boolean {
  return allow.some((written) => {
    const listed = parseHostRule(written);
    if ('problem' in listed) return false;
    const { pattern: outer, ports: open } = listed.value;
    const isInside =
      outer.text === pattern.text || (outer.isSuffix && matchesHost(outer, pattern.host));
    return isInside && ports.every((port) => open.includes(port));
  });
}

const SIZE_BYTES_MIN = 1024 ** 2;

function checkSizes({ spec }: Manifest): ManifestIssue[] {
  return (['memory', 'disk'] as const).flatMap((name) => {
    const written = spec.resources?.[name];
    if (written === undefined) return [];
    const bytes = parseSize(written);
    if (bytes >= SIZE_BYTES_MIN && bytes <= Number.MAX_SAFE_INTEGER) return [];
    const problem = bytes < SIZE_BYTES_MIN ? 'less than 1M' : 'too large';
    const hint = 'Write a size with a unit, such as 4G.';
    return [{ path: ['spec', 'resources', name], message: `${written} is ${problem}`, hint }];
  });
}

/** Units are powers of 1024, as in systemd's MemoryMax=. */
function parseSize(written: number | string): number {
  if (typeof written === 'number') return written;
  const unit = /[KMGT]/.exec(written)?.[0];
  const power = unit === undefined ? 0 : 'KMGT'.indexOf(unit) + 1;
  return Number.parseInt(written, 10) * 1024 ** power;
}

const defaultLinuxUser = (name: string): string => `agent-${name}`;
const toMicrousd = (usd: number): number => Math.round(usd * 1_000_000);

function buildAgent(
  manifest: Manifest,
  hash: string,
  { text, ...composed }: ComposedPersona,
): DeclaredAgent {
  const { metadata, spec } = manifest;
  const description = metadata.description ?? composed.purpose ?? '';
  const deny = new Set(spec.tools?.deny);
  const { memory, disk } = spec.resources ?? {};
  const costUsdPerDay = spec.budget?.costUsdPerDay;
  return {
    name: metadata.name,
    description,
    linuxUser: spec.linuxUser ?? defaultLinuxUser(metadata.name),
    model: spec.model ?? 'default',
    replicas: spec.replicas ?? REPLICAS_DEFAULT,
    persona: text,
    composed,
    capabilities: [...new Set(spec.tools?.allow)].filter((name) => !deny.has(name)),
    tools: findAllowedTools(manifest).tools,
    limits: readLimits(manifest),
    budget: {
      tokens_per_day: spec.budget?.tokensPerDay ?? null,
      cost_microusd_per_day: costUsdPerDay === undefined ? null : toMicrousd(costUsdPerDay),
    },
    team: { delegateTo: spec.team?.delegateTo ?? null, talkTo: spec.team?.talkTo ?? null },
    resources: {
      cpu: spec.resources?.cpu ?? null,
      memoryBytes: memory === undefined ? null : parseSize(memory),
      pids: spec.resources?.pids ?? null,
      diskBytes: disk === undefined ? null : parseSize(disk),
    },
    manifest,
    hash,
  };
}

function readLimits({ spec }: Manifest): Limits {
  const { maxSteps, maxTokens, maxCostUsd, maxTimeS } = spec.limits ?? {};
  return {
    ...(maxSteps === undefined ? {} : { max_steps: maxSteps }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    ...(maxCostUsd === undefined ? {} : { max_cost_microusd: toMicrousd(maxCostUsd) }),
    ...(maxTimeS === undefined ? {} : { max_time_s: maxTimeS }),
  };
}
