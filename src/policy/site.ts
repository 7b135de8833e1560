// Checks the rule files that people write before they take effect. Every problem names the file,
// the line and, if possible, the probable intention.
import type { FileProblem } from '../wire/primitives.ts';
import { describeArguments, findArgumentsRead } from './arguments.ts';
import { ASKED } from './asked.ts';
import { CAPABILITY_NAMES } from './capabilities.ts';
import type { Cedar, DetailedError, PolicyJson } from './cedar.ts';
import { isScope } from './entities.ts';
import { parseHostPattern } from './hosts.ts';
import { canonicalPath } from './paths.ts';
import type { Action } from './request.ts';
import { ANNOTATIONS, findNamedEntity, isAboutTrees, methodsNamedBy } from './rule.ts';
import { lineAtByte, type RuleTextPart, splitRules } from './rule-text.ts';

export type SiteCheck = {
  /** Number of rules in the file. */
  rules: number;
  /** With any of these, the file does not take effect. */
  problems: FileProblem[];
  /** Suspicious, but in effect. */
  warnings: FileProblem[];
};

export const SITE_FILE_BYTES_MAX = 262_144;
const FILE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.cedar$/;

export const isSiteFileName = (name: string): boolean => FILE_NAME.test(name);

export type Nearest = (word: string, known: readonly string[]) => string | undefined;
/** The JSON schema of each tool's arguments, by name. */
export type ToolSchemas = ReadonlyMap<string, Record<string, unknown>>;

export type SiteNames = {
  agents: readonly string[];
  /** Built-in and declared tools; undefined while they are not known. */
  tools?: ToolSchemas | undefined;
  nearest: Nearest;
};

type ParsedRule = { piece: RuleTextPart; json: PolicyJson };

export function checkSiteFile(
  cedar: Cedar,
  { file, text }: { file: string; text: string },
  names: SiteNames,
): SiteCheck {
  const { nearest } = names;
  const report: Report = { file, problems: [], warnings: [] };
  const sizeBytes = Buffer.byteLength(text);
  if (sizeBytes > SITE_FILE_BYTES_MAX) {
    const message = `the file has ${sizeBytes} bytes; the maximum is ${SITE_FILE_BYTES_MAX}`;
    const hint = 'Split it into several files.';
    return { rules: 0, problems: [{ file, line: null, message, hint }], warnings: [] };
  }
  const pieces = splitRules(text);
  const found = pieces.flatMap((piece): ParsedRule[] => {
    const parsed = cedar.parse(piece.text);
    if (parsed.ok) return [{ piece, json: parsed.json }];
    report.problems.push(...parsed.errors.map((error) => explain(file, piece, error)));
    return [];
  });
  for (const rule of found) {
    checkAnnotations(report, rule, nearest);
    checkNames(report, rule, names);
    checkPlanned(report, rule);
    checkAsked(report, rule);
    checkMethods(report, rule);
  }
  const readers = found.filter(({ json }) => findArgumentsRead(json.conditions).length > 0);
  validateAll(
    cedar,
    report,
    found.filter((rule) => !readers.includes(rule)),
  );
  for (const rule of readers) validateReader(cedar, report, rule, names.tools);
  return {
    rules: pieces.length,
    problems: sortByLine(report.problems),
    warnings: sortByLine(report.warnings),
  };
}

const sortByLine = (problems: readonly FileProblem[]): FileProblem[] =>
  problems.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0));

type Report = { file: string; problems: FileProblem[]; warnings: FileProblem[] };

function validateAll(
  cedar: Cedar,
  report: Report,
  found: readonly ParsedRule[],
  argumentsType?: string,
): void {
  const texts = Object.fromEntries(found.map(({ piece }, i) => [String(i), piece.text]));
  const { errors, warnings } = cedar.validate(texts, argumentsType);
  const wrong = new Set(errors.map(({ id }) => id));
  const pieceFor = (id: string): RuleTextPart => found[Number(id)]?.piece ?? { text: '', line: 1 };
  report.problems.push(
    ...mergeActions(errors.map(({ id, error }) => explain(report.file, pieceFor(id), error))),
  );
  // A rule that can never match protects nothing. Warnings that follow from an error are dropped.
  for (const { id, error } of warnings) {
    if (wrong.has(id)) continue;
    wrong.add(id);
    report.problems.push(explain(report.file, pieceFor(id), error));
  }
}

/** Validates a rule that reads arguments: their type is that of its tool. */
function validateReader(
  cedar: Cedar,
  report: Report,
  rule: ParsedRule,
  tools: ToolSchemas | undefined,
): void {
  const { file } = report;
  const { line } = rule.piece;
  const tool = findOnlyTool(rule.json);
  if (tool === undefined) {
    const message = 'the rule reads context.arguments, but is not about one tool';
    const hint = 'Write resource == Tool::"git.branch": each tool has its own arguments.';
    report.problems.push({ file, line, message, hint });
    return;
  }
  const schema = tools?.get(tool);
  if (schema === undefined) {
    const why = tools === undefined ? 'the tools are not known now' : `tool ${tool} not found`;
    const message = `the arguments of ${tool} are not checked: ${why}`;
    const hint =
      'Check again when agentctl tool list shows it; a wrong forbid holds for every call.';
    report.warnings.push({ file, line, message, hint });
    return;
  }
  const { type, known, leftOut } = describeArguments(schema);
  const unusable = findArgumentsRead(rule.json.conditions).flatMap((name) =>
    [...leftOut.keys()].filter((left) => name === left || name.startsWith(`${left}.`)),
  );
  const hint =
    known.length === 0 ? `Rules can use none of ${tool}.` : `Rules can use: ${known.join(', ')}.`;
  for (const name of unusable) {
    const message = `rules cannot use the argument ${name} of ${tool}: ${leftOut.get(name)}`;
    report.problems.push({ file, line, message, hint });
  }
  if (unusable.length === 0) validateAll(cedar, report, [rule], type);
}

function findOnlyTool({ resource }: PolicyJson): string | undefined {
  const named = resource.op === '==' ? findNamedEntity(resource) : undefined;
  return named?.type === 'Tool' ? named.id : undefined;
}

const FOR_ACTION = / for Action::"([^"]*)"/;

/** Merges the identical errors that Cedar reports for each action of a rule. */
function mergeActions(problems: readonly FileProblem[]): FileProblem[] {
  const groups = Map.groupBy(problems, ({ line, message }) =>
    JSON.stringify([line, message.replace(FOR_ACTION, '')]),
  );
  return [...groups.values()].map((same) => {
    const [first] = same as [FileProblem];
    if (same.length === 1) return first;
    const names = same.map(({ message }) => FOR_ACTION.exec(message)?.[1] ?? '?').sort();
    const some = names.length > 3 ? `${names.slice(0, 3).join(', ')} and others` : names.join(', ');
    return {
      ...first,
      message: `${first.message.replace(FOR_ACTION, '')}, for ${same.length} actions: ${some}`,
      hint: "Name the rule's actions; docs/policy.md lists the context of each.",
    };
  });
}

/** Converts Cedar's error, without its rule name and with the file's line. */
function explain(file: string, piece: RuleTextPart, error: DetailedError): FileProblem {
  const at = error.sourceLocations?.[0];
  const line = at === undefined ? piece.line : lineAtByte(piece, at.start);
  const message = error.message
    .replace(/^for policy `[^`]*`, /, '')
    .replace(/^failed to parse (policy|template|policies)[^:]*: /, '');
  const help = error.help ?? at?.label ?? null;
  const hint =
    help === null
      ? 'Correct the rule at this line; docs/policy.md describes the syntax.'
      : `${help[0]!.toUpperCase()}${help.slice(1)}${/[.?!]$/.test(help) ? '' : '.'}`;
  return { file, line, message, hint };
}

function checkAnnotations(
  { file, problems }: Report,
  { piece, json }: ParsedRule,
  nearest: Nearest,
) {
  const { line } = piece;
  const addProblem = (message: string, hint: string) =>
    problems.push({ file, line, message, hint });
  const annotations = json.annotations ?? {};
  for (const name of Object.keys(annotations)) {
    if (ANNOTATIONS.includes(name)) continue;
    const near = nearest(name, ANNOTATIONS);
    addProblem(
      `unknown annotation @${name}`,
      near === undefined
        ? `Known annotations: ${ANNOTATIONS.map((known) => `@${known}`).join(', ')}.`
        : `Did you mean @${near}?`,
    );
  }
  const { ask, until } = annotations;
  if (ask !== undefined && json.effect !== 'forbid')
    addProblem('@ask is on a permit', 'Put it on a forbid, which then means: only with approval.');
  if (ask === '') addProblem('@ask has no reason', 'Add the reason: @ask("it costs money").');
  if (until !== undefined && !isUtc(until))
    addProblem(
      `@until(${JSON.stringify(until)}) is not a time`,
      'Write a UTC time such as 2026-06-29T18:00:00Z.',
    );
}

const isUtc = (text: string): boolean =>
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$/.test(text) && !Number.isNaN(Date.parse(text));

/** Checks the names that Cedar cannot: a rule with one that matches nothing has no effect. */
function checkNames(
  report: Report,
  { piece, json }: ParsedRule,
  { agents, tools, nearest: near }: SiteNames,
) {
  const { file } = report;
  const toolNames = [...new Set([...CAPABILITY_NAMES, ...(tools?.keys() ?? [])])];
  const add = (to: FileProblem[], type: string, id: string, message: string, hint: string) =>
    to.push({ file, line: lineOfName(piece, type, id), message, hint });
  for (const { type, id } of findEntities(json)) {
    if (type === 'Path') {
      const found = canonicalPath(id);
      if (found.ok) continue;
      const message = `Path ${JSON.stringify(id)} matches nothing: ${found.problem}`;
      add(report.problems, type, id, message, 'Write it as /srv/app, without a trailing slash.');
    } else if (type === 'Host') {
      const pattern = parseHostPattern(id);
      const text = 'value' in pattern ? pattern.value.text : undefined;
      if (text === id) continue;
      const hint = `Write ${text ?? 'it as github.com or *.github.com'}.`;
      add(report.problems, type, id, `Host ${JSON.stringify(id)} matches nothing`, hint);
    } else if (type === 'Scope' && !isScope(id)) {
      const message = `Scope ${JSON.stringify(id)} matches nothing`;
      add(report.problems, type, id, message, 'Write it as project:app/coder.');
    } else if (type === 'Capability' || type === 'Tool') {
      suggest(report, piece, { type, id }, toolNames, near);
    } else if (type === 'Agent') suggest(report, piece, { type, id }, agents, near);
  }
}

/** Adds only a warning for an unknown name, because it may be declared later. */
function suggest(
  { file, warnings }: Report,
  piece: RuleTextPart,
  { type, id }: { type: string; id: string },
  known: readonly string[],
  nearest: Nearest,
): void {
  if (known.includes(id)) return;
  const near = nearest(id, known);
  const line = lineOfName(piece, type, id);
  const hint =
    near === undefined ? 'The rule takes effect once it exists.' : `Did you mean ${near}?`;
  warnings.push({ file, line, message: `${type} ${JSON.stringify(id)} not found`, hint });
}

function lineOfName({ text, line }: RuleTextPart, type: string, id: string): number {
  const at = text.search(new RegExp(`${type}\\s*::\\s*"${RegExp.escape(id)}"`, 'u'));
  return at < 0 ? line : line + text.slice(0, at).split('\n').length - 1;
}

/**
 * Warns about a conditional rule on all files: a box is planned before the conditions are known.
 */
function checkPlanned({ file, warnings }: Report, { piece, json }: ParsedRule): void {
  const isAboutFiles = json.action.op === 'All' || JSON.stringify(json.action).includes('"file.');
  const isOpen =
    findNamedEntity(json.resource) === undefined &&
    (json.resource.op !== 'is' || json.resource.entity_type === 'Path');
  const asks = json.annotations?.ask !== undefined;
  if (json.effect !== 'forbid' || !isAboutFiles || !isOpen || json.conditions.length === 0) return;
  if (asks && isAboutTrees(json)) return;
  const verb = asks ? 'asks about' : 'forbids';
  warnings.push({
    file,
    line: piece.line,
    message: `the rule ${verb} files under conditions that a box cannot evaluate`,
    hint: 'Name a path (resource in Path::"…"); otherwise boxes of these agents show no files at all.',
  });
}

/** Rejects a rule that nothing asks about: it would look in force and decide nothing. */
function checkAsked({ file, problems }: Report, { piece, json }: ParsedRule): void {
  const { line } = piece;
  const addProblem = (message: string, hint: string) =>
    problems.push({ file, line, message, hint });
  const type = principalType(json);
  for (const action of namedActions(json)) {
    if (!Object.hasOwn(ASKED, action)) continue;
    const { principals, canWait } = ASKED[action as Action];
    if (principals.length === 0)
      addProblem(`${action} decides nothing: nothing asks this yet`, 'Remove it from the rule.');
    else if (type !== undefined && !principals.includes(type))
      addProblem(
        `${action} by a principal of type ${type} decides nothing: nothing asks this yet`,
        `Write principal is ${principals.join(' or ')}.`,
      );
    else if (json.annotations?.ask !== undefined && !canWait)
      addProblem(
        `@ask with ${action} decides nothing: nothing waits for a person there`,
        'Remove @ask to forbid it, or name another action.',
      );
  }
}

/** Warns about a permit of methods that still asks a person, because it does not name the host. */
function checkMethods({ file, warnings }: Report, { piece, json }: ParsedRule): void {
  const isAboutMethods = JSON.stringify(json.conditions).includes('"attr":"method"');
  if (json.effect !== 'permit' || !isAboutMethods || methodsNamedBy(json).length > 0) return;
  warnings.push({
    file,
    line: piece.line,
    message: 'requests that this permits and that change something still ask a person',
    hint: 'Name host and method: resource == Host::"…" and when { context has method && context.method == "POST" }.',
  });
}

function namedActions({ action }: PolicyJson): string[] {
  const refs = 'entities' in action ? action.entities : 'entity' in action ? [action.entity] : [];
  return refs.map((ref) => ('__entity' in ref ? ref.__entity.id : ref.id));
}

const MEMBERS: Readonly<Record<string, string>> = { Group: 'Agent', Role: 'Person' };

function principalType({ principal }: PolicyJson): string | undefined {
  const type = principal.op === 'is' ? principal.entity_type : findNamedEntity(principal)?.type;
  return type === undefined ? undefined : (MEMBERS[type] ?? type);
}

type NamedEntity = { type: string; id: string };

function findEntities(json: PolicyJson): NamedEntity[] {
  const found: NamedEntity[] = [];
  const walk = (value: unknown): void => {
    if (Array.isArray(value)) for (const item of value) walk(item);
    else if (typeof value === 'object' && value !== null) {
      const { type, id } = value as Partial<NamedEntity>;
      if (typeof type === 'string' && typeof id === 'string') found.push({ type, id });
      else for (const inner of Object.values(value)) walk(inner);
    }
  };
  walk([json.principal, json.resource, json.conditions]);
  return found;
}
