// Builds a tool from a declaration: its schemas, its preview, and how it runs.
import * as z from 'zod';
import { parseHostRule } from '../../../policy/hosts.ts';
import { fault } from '../../../wire/errors.ts';
import type { Label } from '../../../wire/primitives.ts';
import {
  deletes,
  describeEnd,
  ExecOutput,
  type ExecResult,
  type NetworkDenied,
  reads,
  rethrowAsUncertain,
  toExecOutput,
  WORKSPACE,
  writes,
} from '../tools/box.ts';
import { PLAIN } from '../tools/git/input.ts';
import { openGit } from '../tools/git/run.ts';
import {
  type Effect,
  type Tool,
  type ToolContext,
  type Touch,
  tool,
  type Violation,
} from '../tools/tool.ts';
import { canBeAbsent, type Declaration, type Param } from './declaration.ts';
import { fillIn, findLeadingNames, type Values } from './template.ts';

/** One command in its own sandbox, with exactly these paths of the host. */
export type HostCommand = {
  level: 'L1' | 'L2';
  argv: readonly string[];
  cwd: string;
  env: Readonly<Record<string, string>>;
  read: readonly string[];
  write: readonly string[];
  /** The sandbox has the run's egress. */
  hasNetwork: boolean;
  wallMs: number;
  outputBytesMax: number;
  liveAs: string;
  signal: AbortSignal;
};
/** Throws a fault only when the command was certainly not started, as Box.exec does. */
export type CommandExecutor = {
  run(context: ToolContext, request: HostCommand): Promise<ExecResult>;
};

const OUTPUT_BYTES_MAX = 1_000_000;
const TAIL_CHARS_MAX = 1_500;
const PATH = '/usr/local/bin:/usr/bin:/bin';
const PREVIEW_MS_MAX = 20_000;

function toParamSchema(param: Param, leads: boolean): z.ZodType {
  const described = (schema: z.ZodType) =>
    param.description === undefined ? schema : schema.describe(param.description);
  if (param.type === 'boolean') return described(z.boolean().default(param.default));
  if (param.type === 'integer') {
    const number = z.int().min(param.min).max(param.max);
    return described(withAbsence(number, param));
  }
  let text = z
    .string()
    .max(param.max)
    .regex(/^\P{Cc}*$/u, 'cannot hold control characters');
  if (param.pattern !== undefined)
    text = text.regex(new RegExp(`^(?:${param.pattern})$`, 'u'), `must match ${param.pattern}`);
  if (leads) text = text.regex(/^(?!-)/, 'must not begin with -');
  const { enum: allowed } = param;
  const whole = allowed === undefined ? text : z.enum(allowed).pipe(text);
  return described(withAbsence(whole, param));
}

function withAbsence(schema: z.ZodType, param: Param): z.ZodType {
  if (param.default !== undefined) return schema.default(param.default as never);
  return canBeAbsent(param) ? schema.optional() : schema;
}

function buildInputSchema({ argv, preview, input }: Declaration) {
  const leading = new Set([...findLeadingNames(argv), ...findLeadingNames(preview ?? [])]);
  const members = Object.entries(input).map(([name, param]): [string, z.ZodType] => [
    name,
    toParamSchema(param, leading.has(name)),
  ]);
  return z.strictObject(Object.fromEntries(members));
}

const FIELD = {
  string: () => z.string(),
  integer: () => z.int(),
  number: () => z.number(),
  boolean: () => z.boolean(),
} as const;

function buildOutputSchema({ output }: Declaration): z.ZodType<Record<string, unknown>> {
  if (output.format === 'text') return ExecOutput;
  const members = Object.entries(output.fields).map(([name, { type, optional }]) => {
    const field: z.ZodType = FIELD[type]();
    return [name, optional ? field.optional() : field] as const;
  });
  return z.object(Object.fromEntries(members));
}

/** Write access to a directory includes reading and deleting. */
const ownWrites = (path: string) => [reads(path), writes(path), deletes(path)];

const listHosts = ({ network }: Pick<Declaration, 'network'>): { host: string; port: number }[] =>
  (typeof network === 'string' ? [] : network).flatMap((written) => {
    const rule = parseHostRule(written);
    if ('problem' in rule) return [];
    const { pattern, ports } = rule.value;
    return ports.map((port) => ({ host: pattern.text, port }));
  });

/** Downloads made outside the box are not observed, so the output counts as from outside. */
function labelOutput(declared: Declaration): Label[] {
  const fetches = declared.place === 'host' && listHosts(declared).length > 0;
  const labels = declared.output_labels ?? declared.brings ?? [];
  return [...new Set([...labels, ...(fetches ? (['outside'] as const) : [])])];
}

function listTouches({ place, network, cwd, read, write }: Declaration): Touch[] {
  const own = [...read.map(reads), ...write.flatMap(ownWrites)];
  const paths =
    place === 'box'
      ? [reads(cwd ?? WORKSPACE), writes(cwd ?? WORKSPACE)]
      : own.map((touch) => ({ ...touch, declared: true }));
  return [
    ...paths,
    ...listHosts({ network }).map((place): Touch => ({ action: 'net.connect', ...place })),
  ];
}

function makeCommandRunner(declared: Declaration, places: { host: CommandExecutor }) {
  const { argv, env, cwd, level, read, write, timeout_s } = declared;
  const network = listHosts(declared);
  const always = {
    wallMs: timeout_s * 1_000,
    outputBytesMax: OUTPUT_BYTES_MAX,
    liveAs: declared.name,
  };
  return async (values: Values, context: ToolContext): Promise<ExecResult> => {
    const command = { argv: fillIn(argv, values), env: { PATH, LANG: 'C.UTF-8', ...env } };
    const { signal } = context;
    const settle = <T>(running: Promise<T>): Promise<T> =>
      declared.idempotent ? running : running.catch(rethrowAsUncertain);
    if (declared.place === 'host') {
      const sandbox = { level, read, write, hasNetwork: network.length > 0, cwd: cwd ?? '/' };
      return settle(places.host.run(context, { ...command, ...sandbox, ...always, signal }));
    }
    const box = await context.box();
    return settle(box.exec({ ...command, cwd: cwd ?? box.roots.workspace, ...always, signal }));
  };
}

const readTail = (text: Buffer) => text.toString('utf8').trim().slice(-TAIL_CHARS_MAX);

const OWN_LIMITS: ReadonlySet<string | null> = new Set(['wall', 'output', 'cpu', 'memory', 'pids']);

/** Not the tool's doing: which host answers the run first depends on what else it runs. */
const isOwnDenial = ({ code }: NetworkDenied): boolean => code !== 'outside';

function findViolations({ endedBy, networkDenied }: ExecResult): Violation[] {
  return [
    ...(OWN_LIMITS.has(endedBy) ? (['limit'] as const) : []),
    ...(networkDenied.some(isOwnDenial) ? (['network'] as const) : []),
  ];
}

function toEffect(declared: Declaration, done: ExecResult): Effect {
  const { name, idempotent, output } = declared;
  if (done.endedBy !== null) {
    const note = done.note === undefined ? '' : `: ${done.note}`;
    const message = `${name} was ended ${describeEnd(done.endedBy)}${note}`;
    // Its progress is unknown, so only an idempotent tool may be called failed.
    if (!idempotent) return { unknown: true };
    const hint = 'Request less, or ask a person to raise its limit.';
    return { error: { code: 'limit', message, hint, retry: false } };
  }
  if (done.exitCode !== 0) {
    const refused = done.networkDenied.map(({ reason, hint }) => `${reason}. ${hint}`);
    const printed = [readTail(done.stderr), readTail(done.stdout), ...refused]
      .filter((text) => text !== '')
      .join('\n');
    const how = done.exitCode === null ? `signal ${done.signal}` : `status ${done.exitCode}`;
    const message = `${name} failed with ${how}: ${printed || 'no output'}`;
    const hint = 'Read its output; do not assume that it changed nothing.';
    return { error: { code: 'command_failed', message, hint, retry: false } };
  }
  if (output.format === 'text') return { result: toExecOutput(done) };
  const result = parseObject(done.stdout);
  if (result !== undefined) return { result };
  const message = `${name} was done, but did not print exactly one JSON object`;
  const hint = 'Do not rely on its result; an operator should check the program.';
  return { error: { code: 'bad_output', message, hint, retry: false } };
}

function parseObject(stdout: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(stdout.toString('utf8'));
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Inserts options after the git subcommand so that it runs no external diff program. */
function disableGitPrograms(args: readonly string[]): string[] {
  const at = args.findIndex((word, i) => !word.startsWith('-') && args[i - 1] !== '-c');
  const shows = ['diff', 'log', 'show'].includes(args[at] ?? '');
  return shows ? [...args.slice(0, at + 1), ...PLAIN, ...args.slice(at + 1)] : [...args];
}

/**
 * A repository can make plain git run programs and show false content, so git previews run with the
 * hardening of the built-in git tools.
 */
async function runPreview(argv: readonly string[], context: ToolContext): Promise<ExecResult> {
  const box = await context.box();
  const [program, ...rest] = argv;
  if (program === 'git' || program === '/usr/bin/git') {
    const [from, args] =
      rest[0] === '-C' ? [rest[1] ?? '', rest.slice(2)] : [box.roots.workspace, rest];
    return (await openGit(context, from)).try(disableGitPrograms(args));
  }
  return box.exec({
    argv,
    env: { PATH, LANG: 'C.UTF-8' },
    cwd: box.roots.workspace,
    wallMs: PREVIEW_MS_MAX,
    outputBytesMax: OUTPUT_BYTES_MAX,
    signal: context.signal,
  });
}

/** The command line, followed by the output of the declared preview. */
async function renderPreview(
  { argv, preview }: Declaration,
  values: Values,
  context: ToolContext,
): Promise<string> {
  const command = fillIn(argv, values).map((word) => JSON.stringify(word));
  const line = `${command.join(' ')}\n`;
  if (preview === undefined) return line;
  const { stdout, stderr, exitCode } = await runPreview(fillIn(preview, values), context);
  if (exitCode === 0) return `${line}\n${stdout.toString('utf8')}`;
  throw fault('conflict', `the preview of ${command[0]} failed: ${readTail(stderr)}`, {
    hint: 'Correct the arguments: a call without a preview cannot be approved.',
  });
}

export function makeCommandTool(declared: Declaration, places: { host: CommandExecutor }): Tool {
  const { name, description, risk, reversibility, idempotent, rollback, timeout_s } = declared;
  const run = makeCommandRunner(declared, places);
  const made = tool({
    name,
    description,
    risk,
    reversibility,
    idempotent,
    level: declared.level,
    timeoutMs: (timeout_s + 10) * 1_000,
    callsPerRunMax: declared.calls_per_run_max,
    isDeclared: true,
    ...(declared.place === 'box' ? { box: 'write' as const } : {}),
    outputLabels: labelOutput(declared),
    approval: declared.approval,
    ...(rollback === undefined ? {} : { rollback }),
    input: buildInputSchema(declared),
    output: buildOutputSchema(declared),
    touches: () => listTouches(declared),
    preview: async (input, context) => renderPreview(declared, input as Values, context),
    ...(declared.preview === undefined ? {} : { previewsFiles: true as const }),
    async perform(input, context) {
      const done = await run(input as Values, context);
      return { ...toEffect(declared, done), violations: findViolations(done) };
    },
  });
  const capabilities = [...new Set([...made.view.capabilities, name])];
  return { ...made, view: { ...made.view, capabilities } };
}
