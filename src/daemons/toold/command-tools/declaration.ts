// Validates a tool that an operator declares in YAML: a program with typed arguments. Every error
// in a declaration is found here, with its path, before the tool exists.
import * as z from 'zod';
import { findNearest } from '../../../platform/did-you-mean.ts';
import { parseHostRule } from '../../../policy/hosts.ts';
import { MARKS } from '../../../wire/primitives.ts';
import { findLeadingNames, findNames, type Piece } from './template.ts';

const ParamName = z.string().regex(/^[a-z][a-z0-9_]{0,31}$/, 'must be a name such as service');
const description = z.string().max(500).optional();

const TextParam = z.strictObject({
  type: z.literal('string'),
  description,
  pattern: z
    .string()
    .max(500)
    .refine(isPattern, 'is not a regular expression')
    .optional()
    .describe('the whole value must match'),
  enum: z.array(z.string().min(1).max(200)).min(1).max(100).optional(),
  max: z.int().min(1).max(4_096).default(256).describe('characters'),
  default: z.string().max(4_096).optional(),
  optional: z.boolean().default(false),
});
const IntegerParam = z.strictObject({
  type: z.literal('integer'),
  description,
  min: z.int().default(0),
  max: z.int().default(Number.MAX_SAFE_INTEGER),
  default: z.int().optional(),
  optional: z.boolean().default(false),
});
const BooleanParam = z.strictObject({
  type: z.literal('boolean'),
  description,
  default: z.boolean().default(false),
});
const Param = z.discriminatedUnion('type', [TextParam, IntegerParam, BooleanParam]);
export type Param = z.output<typeof Param>;

function isPattern(text: string): boolean {
  try {
    new RegExp(text, 'u');
    return true;
  } catch {
    return false;
  }
}

const ArgvWord = z
  .string()
  .min(1)
  .max(4_096)
  .regex(/^[^\0]*$/, 'cannot hold a NUL character');
const ArgvPiece = z.union([
  ArgvWord,
  z.strictObject({ if: ParamName, add: z.array(ArgvWord).min(1).max(16) }),
]);

const AbsolutePath = z
  .string()
  .max(4_095)
  .regex(/^\/[^\0]*$/, 'must be an absolute path');
const Field = z.strictObject({
  type: z.enum(['string', 'integer', 'number', 'boolean']),
  optional: z.boolean().default(false),
});

const OutputLabels = z.array(z.enum(MARKS)).optional();

const Shape = z.strictObject({
  name: z
    .string()
    .max(64)
    .regex(/^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$/, 'must look like service.restart'),
  description: z.string().min(1).max(2_000),
  argv: z.array(ArgvPiece).min(1).max(100),
  input: z.record(ParamName, Param).default({}),
  /** text: stdout and stderr. json: one object on stdout, with these fields. */
  output: z
    .strictObject({
      format: z.enum(['text', 'json']).default('text'),
      fields: z.record(z.string().min(1).max(64), Field).default({}),
    })
    .prefault({}),
  /** box: in the agent's box. host: in its own sandbox, with the paths declared here. */
  place: z.enum(['box', 'host']).default('box'),
  level: z.enum(['L1', 'L2']).default('L2'),
  read: z.array(AbsolutePath).max(64).default([]),
  write: z.array(AbsolutePath).max(64).default([]),
  /** A list: these hosts, through the run's egress, if policy allows them for the agent. */
  network: z
    .union([z.enum(['none', 'host']), z.array(z.string().max(253)).max(64)])
    .default('none'),
  risk: z.enum(['low', 'medium', 'high']),
  reversibility: z.enum(['read-only', 'reversible', 'externally-reversible', 'irreversible']),
  idempotent: z.boolean(),
  /** Marks that its output may carry: logs and responses of servers are `outside`. */
  output_labels: OutputLabels,
  /** The former name of `output_labels`, accepted for one more release. */
  brings: OutputLabels,
  approval: z.enum(['required', 'policy']).default('policy'),
  rollback: z.string().max(1_000).optional(),
  /** Prints what would change, for approvals; runs in the agent's box and must change nothing. */
  preview: z.array(ArgvPiece).min(1).max(100).optional(),
  timeout_s: z.int().min(1).max(3_600).default(60),
  calls_per_run_max: z.int().min(1).max(10_000).default(100),
  env: z.record(z.string().regex(/^[A-Za-z_]\w*$/), z.string().max(4_096)).default({}),
  cwd: AbsolutePath.optional(),
});

type Issue = { path: (string | number)[]; message: string };

function findProblems(declared: z.output<typeof Shape>): Issue[] {
  const { argv, input, place } = declared;
  const known = Object.keys(input);
  const unknown = (name: string) => {
    const near = findNearest(name, known);
    return `{${name}} is not among the inputs${near === undefined ? '' : `; did you mean ${near}?`}`;
  };
  const issues: Issue[] = [];
  argv.forEach((piece, at) => {
    const path = ['argv', at];
    const words = typeof piece === 'string' ? [piece] : piece.add;
    const when = typeof piece === 'string' ? undefined : piece.if;
    if (when !== undefined && !known.includes(when)) issues.push({ path, message: unknown(when) });
    for (const name of words.flatMap(findNames)) {
      const param = input[name];
      if (param === undefined) issues.push({ path, message: unknown(name) });
      else if (canBeAbsent(param) && when !== name)
        issues.push({ path, message: `{${name}} may be absent: put it under "if: ${name}"` });
    }
  });
  for (const name of (declared.preview ?? []).flatMap((piece) =>
    typeof piece === 'string' ? findNames(piece) : [piece.if, ...piece.add.flatMap(findNames)],
  ))
    if (!known.includes(name)) issues.push({ path: ['preview'], message: unknown(name) });
  const program = argv[0];
  if (typeof program !== 'string' || findNames(program).length > 0)
    issues.push({ path: ['argv', 0], message: 'the program itself must be fixed' });
  else if (place === 'host' && !program.startsWith('/'))
    issues.push({ path: ['argv', 0], message: 'the program must be an absolute path' });
  const used = new Set(
    argv.flatMap((p) =>
      typeof p === 'string' ? findNames(p) : [p.if, ...p.add.flatMap(findNames)],
    ),
  );
  for (const name of known.filter((input) => !used.has(input)))
    issues.push({ path: ['input', name], message: 'is not used in argv' });
  for (const [name, param] of Object.entries(input)) issues.push(...findParamProblems(name, param));
  if (place === 'box' && (declared.read.length > 0 || declared.write.length > 0))
    issues.push({ path: ['place'], message: 'paths are for place: host; a box has its own' });
  if (declared.brings !== undefined && declared.output_labels !== undefined)
    issues.push({ path: ['brings'], message: 'is the old name of output_labels: remove it' });
  issues.push(...findPlaceProblems(declared));
  const dashes = [argv, declared.preview ?? []].flatMap((words) => checkDashes(words, input));
  return [...issues, ...dashes];
}

/** Every sandbox has its own, so the host's cannot be mounted there. */
const OWN = ['/tmp', '/proc', '/dev', '/sys', '/run'];
const isOwn = (path: string) => OWN.some((own) => path === own || path.startsWith(`${own}/`));

function findPlaceProblems({ argv, place, level, network, read, write }: z.output<typeof Shape>) {
  const issues: Issue[] = [];
  const [program] = argv;
  const describe = (path: string) =>
    `${path}: a sandbox has its own ${path.split('/')[1]}, and no other`;
  if (place === 'host' && typeof program === 'string' && isOwn(program))
    issues.push({ path: ['argv', 0], message: describe(program) });
  for (const [key, paths] of Object.entries({ read, write }))
    for (const [at, path] of paths.entries())
      if (isOwn(path)) issues.push({ path: [key, at], message: describe(path) });
  if (network === 'host')
    issues.push({ path: ['network'], message: "no sandbox gets this machine's own network" });
  else if (network !== 'none' && level === 'L1')
    issues.push({ path: ['network'], message: 'hosts are reached from level L2 only' });
  if (typeof network !== 'string')
    for (const [at, host] of network.entries()) {
      const rule = parseHostRule(host);
      if ('problem' in rule || rule.value.pattern.isSuffix)
        issues.push({ path: ['network', at], message: `${host} names no host` });
    }
  return issues;
}

export const canBeAbsent = (param: Param): boolean =>
  param.type !== 'boolean' && param.optional && param.default === undefined;

function findParamProblems(name: string, param: Param): Issue[] {
  const path = ['input', name];
  if (param.type === 'string' && param.pattern === undefined && param.enum === undefined)
    return [{ path, message: 'a string needs a pattern or an enum' }];
  if (param.type === 'integer' && param.min > param.max)
    return [{ path, message: 'min is more than max' }];
  return [];
}

/** Finds declared values that could be taken for an option, and so could never be used. */
function checkDashes(argv: readonly Piece[], input: Readonly<Record<string, Param>>): Issue[] {
  const leading = findLeadingNames(argv);
  return Object.entries(input).flatMap(([name, param]) => {
    if (!leading.has(name)) return [];
    const isDashed =
      (param.type === 'integer' && param.min < 0) ||
      (param.type === 'string' && param.enum?.some((value) => value.startsWith('-')) === true) ||
      (param.type === 'string' && param.default?.startsWith('-') === true);
    const message = 'could begin with "-" and be taken for an option: put "--" before it in argv';
    return isDashed ? [{ path: ['input', name], message }] : [];
  });
}

export const Declaration = Shape.superRefine((declared, context) => {
  for (const { path, message } of findProblems(declared))
    context.addIssue({ code: 'custom', path, message });
});
export type Declaration = z.output<typeof Declaration>;
