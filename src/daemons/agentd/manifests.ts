// A manifest's text → the agent it declares, checked whole and with its defaults filled in, or
// every problem with line and hint. Where the text comes from is adapters/manifest-dir.ts's.

import { nearest } from '../../platform/did-you-mean.ts';
import { sha256Hex } from '../../platform/json.ts';
import { readYaml, type YamlProblem } from '../../platform/yaml-file.ts';
import { CAPABILITY_WORDS, toolsOf, undeniableWords } from '../../policy/capabilities.ts';
import { parseHostRule } from '../../policy/hosts.ts';
import { NEVER_FOR_AGENTS, type Resources, trimSlash } from '../../policy/manifest-rules.ts';
import { canonicalPath, isWithin } from '../../policy/paths.ts';
import type { AgentView, Limits } from '../../wire/agentd.ts';
import { Manifest } from '../../wire/manifest.ts';
import type { FileProblem } from '../../wire/primitives.ts';

export const manifestSizeBytesMax = 262_144;

/** An agent as its manifest declares it. */
export type DeclaredAgent = {
  name: string;
  description: string;
  linuxUser: string;
  model: string;
  replicas: number;
  persona: string;
  /** The words its manifest allows, denied ones taken away. */
  capabilities: string[];
  /** The tools those words mean and the ones every agent has, sorted. */
  tools: string[];
  /** For tasks that name no limits of their own. */
  limits: Limits;
  budget: AgentView['budget'];
  /** null: the manifest does not say; what that means is in wire/manifest.ts. */
  team: { delegateTo: string[] | null; talkTo: string[] | null };
  resources: Resources;
  manifest: Manifest;
  /** SHA-256 of the text, as sha256sum gives it for the file. */
  hash: string;
};

export type ManifestResult =
  | { ok: true; agent: DeclaredAgent }
  | { ok: false; problems: FileProblem[] };

type Complaint = { path: PropertyKey[]; message: string; hint: string };

/** Built once: each schema compiles itself on first use. */
const CheckedManifest = Manifest.superRefine((manifest, context) => {
  for (const { path, message, hint } of complaintsAbout(manifest)) {
    context.addIssue({ code: 'custom', path, message, params: { hint } });
  }
});

/** Names beside the table, for the manifest that is being read; nothing interrupts that. */
let declared: ReadonlySet<string> = new Set();

export function readManifest(
  text: string,
  file: string,
  declaredTools: ReadonlySet<string> = new Set(),
): ManifestResult {
  declared = declaredTools;
  const sizeBytes = Buffer.byteLength(text);
  if (sizeBytes > manifestSizeBytesMax) return { ok: false, problems: [tooLarge(file, sizeBytes)] };
  if (isEmpty(text)) return { ok: false, problems: [empty(file)] };
  const read = readYaml(text, file, CheckedManifest);
  if (!read.ok) return { ok: false, problems: read.problems.map(clarify) };
  return { ok: true, agent: declare(read.value, sha256Hex(text)) };
}

export function tooLarge(file: string, sizeBytes: number): FileProblem {
  return {
    file,
    line: null,
    message: `the manifest has ${sizeBytes} bytes, at most ${manifestSizeBytesMax} are read`,
    hint: 'Shorten it; long instructions belong into artifacts or files that the agent reads.',
  };
}

/** Nothing in it but comments: one sentence says more than every key that is missing. */
const isEmpty = (text: string): boolean => text.split('\n').every((line) => /^\s*(#|$)/.test(line));

const empty = (file: string): FileProblem => ({
  file,
  line: null,
  message: 'the manifest is empty',
  hint: 'Remove the file; agentctl agent create NAME writes one that declares an agent.',
});

function clarify({ reason, ...problem }: YamlProblem): FileProblem {
  if (reason !== 'second_document') return problem;
  return {
    ...problem,
    message: 'a second document starts here; a manifest declares one agent',
    hint: 'Put each agent into a file of its own.',
  };
}

/** What the schema cannot see: words that mean nothing, and values that could never work. */
function complaintsAbout(manifest: Manifest): Complaint[] {
  return [
    ...wordComplaints(manifest),
    ...userComplaints(manifest),
    ...pathComplaints(manifest),
    ...hostComplaints(manifest),
    ...sizeComplaints(manifest),
  ];
}

function wordComplaints(manifest: Manifest): Complaint[] {
  const { tools, approvals } = manifest.spec;
  const unknown = new Set(toolsOf(manifest).unknown).difference(declared);
  const lists: [PropertyKey[], string[]][] = [
    [['spec', 'tools', 'allow'], tools?.allow ?? []],
    [['spec', 'tools', 'deny'], tools?.deny ?? []],
    [['spec', 'approvals', 'required'], approvals?.required ?? []],
  ];
  const misspelt = lists.flatMap(([path, words]) =>
    words.flatMap((word, i) => {
      if (!unknown.has(word)) return [];
      const near = nearest(word, CAPABILITY_WORDS);
      const known = `Known words: ${CAPABILITY_WORDS.join(', ')}.`;
      const hint = near === undefined ? known : `Did you mean ${near}?`;
      return [{ path: [...path, i], message: `unknown capability ${word}`, hint }];
    }),
  );
  const deny = tools?.deny ?? [];
  const undeniable = undeniableWords(deny).map((word) => ({
    path: ['spec', 'tools', 'deny', deny.indexOf(word)],
    message: `${word} cannot be denied: without task.finish no task of this agent could end`,
    hint: 'Deny the other tools by their names.',
  }));
  return [...misspelt, ...undeniable];
}

function userComplaints({ metadata, spec }: Manifest): Complaint[] {
  if (spec.linuxUser === 'root') {
    return [
      {
        path: ['spec', 'linuxUser'],
        message: 'no agent runs as root',
        hint: `Leave it out (agent-${metadata.name}) or name a user of its own.`,
      },
    ];
  }
  const user = spec.linuxUser ?? defaultUser(metadata.name);
  if (user.length <= 32) return [];
  return [
    {
      path: ['metadata', 'name'],
      message: `the Linux user ${user} would have more than 32 characters`,
      hint: 'Shorten the name, or set spec.linuxUser.',
    },
  ];
}

/** A path of another spelling would mean another place than it seems to, or none. */
function pathComplaints({ spec }: Manifest): Complaint[] {
  return Object.entries(spec.filesystem ?? {}).flatMap(([key, paths]) =>
    (paths ?? []).flatMap((written, i) => {
      const path = ['spec', 'filesystem', key, i];
      const found = canonicalPath(trimSlash(written));
      if (!found.ok) {
        const what = found.problem.replace(/^it /, '');
        return [{ path, message: `${written} ${what}`, hint: 'Write the path out.' }];
      }
      if (/[*?]/.test(found.path)) {
        const hint = 'Name the directory: everything below it is meant too.';
        return [{ path, message: `${written} is a pattern; only paths are understood`, hint }];
      }
      const never = NEVER_FOR_AGENTS.find((root) => isWithin(found.path, root));
      if (key === 'deny' || never === undefined) return [];
      const hint = 'Leave it out; every agent has a home of its own in its box.';
      return [{ path, message: `${never} is never for agents`, hint }];
    }),
  );
}

/** A host that could never match would look like a right, or like a limit. */
function hostComplaints({ spec }: Manifest): Complaint[] {
  return (spec.network?.allow ?? []).flatMap((written, i) => {
    const rule = parseHostRule(written);
    if ('value' in rule) return [];
    const hint = 'Write it as github.com, *.github.com or registry.local:5000.';
    return [
      { path: ['spec', 'network', 'allow', i], message: `${written}: ${rule.problem}`, hint },
    ];
  });
}

const SIZE_BYTES_MIN = 1024 ** 2;

function sizeComplaints({ spec }: Manifest): Complaint[] {
  const tooLittle = { memory: 'no process starts in that', disk: 'nothing fits in that' };
  return (['memory', 'disk'] as const).flatMap((name) => {
    const written = spec.resources?.[name];
    if (written === undefined) return [];
    const bytes = parseSize(written);
    if (bytes >= SIZE_BYTES_MIN && bytes <= Number.MAX_SAFE_INTEGER) return [];
    const much = bytes < SIZE_BYTES_MIN ? `less than 1M, ${tooLittle[name]}` : 'too much';
    const hint = 'Write a size with its unit, such as 4G.';
    return [{ path: ['spec', 'resources', name], message: `${written} is ${much}`, hint }];
  });
}

/** As systemd reads MemoryMax=: every unit is a power of 1024. */
function parseSize(written: number | string): number {
  if (typeof written === 'number') return written;
  const unit = /[KMGT]/.exec(written)?.[0];
  const power = unit === undefined ? 0 : 'KMGT'.indexOf(unit) + 1;
  return Number.parseInt(written, 10) * 1024 ** power;
}

const defaultUser = (name: string): string => `agent-${name}`;
const microusd = (usd: number): number => Math.round(usd * 1_000_000);

function declare(manifest: Manifest, hash: string): DeclaredAgent {
  const { metadata, spec } = manifest;
  const description = metadata.description ?? '';
  const deny = new Set(spec.tools?.deny);
  const { memory, disk } = spec.resources ?? {};
  const costUsdPerDay = spec.budget?.costUsdPerDay;
  return {
    name: metadata.name,
    description,
    linuxUser: spec.linuxUser ?? defaultUser(metadata.name),
    model: spec.model ?? 'default',
    replicas: spec.replicas ?? 1,
    persona: spec.persona ?? `You are ${metadata.name}. ${description}`.trim(),
    capabilities: [...new Set(spec.tools?.allow)].filter((word) => !deny.has(word)),
    tools: toolsOf(manifest).tools,
    limits: limitsOf(manifest),
    budget: {
      tokens_per_day: spec.budget?.tokensPerDay ?? null,
      cost_microusd_per_day: costUsdPerDay === undefined ? null : microusd(costUsdPerDay),
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

function limitsOf({ spec }: Manifest): Limits {
  const { maxSteps, maxTokens, maxCostUsd, maxTimeS } = spec.limits ?? {};
  return {
    ...(maxSteps === undefined ? {} : { max_steps: maxSteps }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    ...(maxCostUsd === undefined ? {} : { max_cost_microusd: microusd(maxCostUsd) }),
    ...(maxTimeS === undefined ? {} : { max_time_s: maxTimeS }),
  };
}
