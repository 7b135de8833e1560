// Rules that people write: checked against the schema before they are in force, every problem with
// file, line and what was probably meant. Pure but for Cedar; which files are in force is agentd's.
import type { FileProblem } from '../wire/primitives.ts';
import { CAPABILITY_WORDS } from './capabilities.ts';
import type { Cedar, DetailedError, PolicyJson } from './cedar.ts';
import { isScope } from './entities.ts';
import { parseHostPattern } from './hosts.ts';
import { canonicalPath } from './paths.ts';
import { ANNOTATIONS, isAboutTrees, namedIn } from './rule.ts';
import { lineAtByte, type RuleTextPart, splitRules } from './rule-text.ts';

export type SiteCheck = {
  /** How many rules the file has. */
  rules: number;
  /** Any of these, and the file is not taken. */
  problems: FileProblem[];
  /** Worth a look, but in force. */
  warnings: FileProblem[];
};

export const SITE_FILE_BYTES_MAX = 262_144;
const FILE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.cedar$/;

export const isSiteFileName = (name: string): boolean => FILE_NAME.test(name);

export type Nearest = (word: string, known: readonly string[]) => string | undefined;

type Found = { piece: RuleTextPart; json: PolicyJson };

export function checkSiteFile(
  cedar: Cedar,
  { file, text }: { file: string; text: string },
  { agents, nearest }: { agents: readonly string[]; nearest: Nearest },
): SiteCheck {
  const tell: Tell = { file, problems: [], warnings: [] };
  const sizeBytes = Buffer.byteLength(text);
  if (sizeBytes > SITE_FILE_BYTES_MAX) {
    const message = `the file has ${sizeBytes} bytes, at most ${SITE_FILE_BYTES_MAX} are read`;
    const hint = 'Split it into several files.';
    return { rules: 0, problems: [{ file, line: null, message, hint }], warnings: [] };
  }
  const pieces = splitRules(text);
  const found = pieces.flatMap((piece): Found[] => {
    const parsed = cedar.parse(piece.text);
    if (parsed.ok) return [{ piece, json: parsed.json }];
    tell.problems.push(...parsed.errors.map((error) => explain(file, piece, error)));
    return [];
  });
  for (const one of found) {
    checkAnnotations(tell, one, nearest);
    checkNames(tell, one, agents, nearest);
    checkPlanned(tell, one);
  }
  validateAll(cedar, tell, found);
  return {
    rules: pieces.length,
    problems: inOrder(tell.problems),
    warnings: inOrder(tell.warnings),
  };
}

const inOrder = (problems: readonly FileProblem[]): FileProblem[] =>
  problems.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0));

type Tell = { file: string; problems: FileProblem[]; warnings: FileProblem[] };

function validateAll(cedar: Cedar, tell: Tell, found: readonly Found[]): void {
  const texts = Object.fromEntries(found.map(({ piece }, i) => [String(i), piece.text]));
  const { errors, warnings } = cedar.validate(texts);
  const wrong = new Set(errors.map(({ id }) => id));
  const pieceOf = (id: string): RuleTextPart => found[Number(id)]?.piece ?? { text: '', line: 1 };
  tell.problems.push(
    ...mergeActions(errors.map(({ id, error }) => explain(tell.file, pieceOf(id), error))),
  );
  // A rule that can never hold protects nothing: what follows from an error was said already.
  for (const { id, error } of warnings) {
    if (wrong.has(id)) continue;
    wrong.add(id);
    tell.problems.push(explain(tell.file, pieceOf(id), error));
  }
}

const FOR_ACTION = / for Action::"([^"]*)"/;

/** Cedar tries a rule with every action it may be about, and says the same of each. */
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
      hint: 'Name the actions that the rule is about; docs/policy.md shows what each of them knows.',
    };
  });
}

/** Cedar's words, without its name for the rule, and with ours for the place. */
function explain(file: string, piece: RuleTextPart, error: DetailedError): FileProblem {
  const at = error.sourceLocations?.[0];
  const line = at === undefined ? piece.line : lineAtByte(piece, at.start);
  const message = error.message
    .replace(/^for policy `[^`]*`, /, '')
    .replace(/^failed to parse (policy|template|policies)[^:]*: /, '');
  const help = error.help ?? at?.label ?? null;
  const hint =
    help === null
      ? 'Correct the rule at this line; docs/policy.md shows what rules can say.'
      : `${help[0]!.toUpperCase()}${help.slice(1)}${/[.?!]$/.test(help) ? '' : '.'}`;
  return { file, line, message, hint };
}

function checkAnnotations({ file, problems }: Tell, { piece, json }: Found, nearest: Nearest) {
  const { line } = piece;
  const complain = (message: string, hint: string) => problems.push({ file, line, message, hint });
  const notes = json.annotations ?? {};
  for (const name of Object.keys(notes)) {
    if (ANNOTATIONS.includes(name)) continue;
    const near = nearest(name, ANNOTATIONS);
    complain(
      `unknown annotation @${name}`,
      near === undefined
        ? `Known annotations: ${ANNOTATIONS.map((one) => `@${one}`).join(', ')}.`
        : `Did you mean @${near}?`,
    );
  }
  const { ask, until } = notes;
  if (ask !== undefined && json.effect !== 'forbid')
    complain('@ask stands on a permit', 'Put it on a forbid: not without a person.');
  if (ask === '') complain('@ask does not say why', 'Write the reason: @ask("it costs money").');
  if (until !== undefined && !isUtc(until))
    complain(`@until(${JSON.stringify(until)}) is not a time`, 'Write 2026-06-29T18:00:00Z.');
}

const isUtc = (text: string): boolean =>
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$/.test(text) && !Number.isNaN(Date.parse(text));

/** Names that Cedar cannot know to be wrong: one that matches nothing would silently do nothing. */
function checkNames(tell: Tell, { piece, json }: Found, agents: readonly string[], near: Nearest) {
  const { file } = tell;
  const say = (to: FileProblem[], type: string, id: string, message: string, hint: string) =>
    to.push({ file, line: lineOfName(piece, type, id), message, hint });
  for (const { type, id } of entitiesIn(json)) {
    if (type === 'Path') {
      const found = canonicalPath(id);
      if (found.ok) continue;
      const message = `no path is ever called ${JSON.stringify(id)}: ${found.problem}`;
      say(tell.problems, type, id, message, 'Write it as /srv/app, without a slash at the end.');
    } else if (type === 'Host') {
      const pattern = parseHostPattern(id);
      const text = 'value' in pattern ? pattern.value.text : undefined;
      if (text === id) continue;
      const hint = `Write ${text ?? 'it as github.com or *.github.com'}.`;
      say(tell.problems, type, id, `no host is ever called ${JSON.stringify(id)}`, hint);
    } else if (type === 'Scope' && !isScope(id)) {
      const message = `no scope is ever called ${JSON.stringify(id)}`;
      say(tell.problems, type, id, message, 'Write it as project:app/coder.');
    } else if (type === 'Capability' || type === 'Tool') {
      suggest(tell, piece, { type, id }, CAPABILITY_WORDS, near);
    } else if (type === 'Agent') suggest(tell, piece, { type, id }, agents, near);
  }
}

/** An unknown name may be one that is declared later, unless it looks like a slip. */
function suggest(
  { file, warnings }: Tell,
  piece: RuleTextPart,
  { type, id }: { type: string; id: string },
  known: readonly string[],
  nearest: Nearest,
): void {
  if (known.includes(id)) return;
  const near = nearest(id, known);
  const line = lineOfName(piece, type, id);
  const hint = near === undefined ? 'It holds as soon as there is one.' : `Did you mean ${near}?`;
  warnings.push({ file, line, message: `there is no ${type} ${JSON.stringify(id)}`, hint });
}

function lineOfName({ text, line }: RuleTextPart, type: string, id: string): number {
  const at = text.search(new RegExp(`${type}\\s*::\\s*"${RegExp.escape(id)}"`, 'u'));
  return at < 0 ? line : line + text.slice(0, at).split('\n').length - 1;
}

/** A box is made before anything happens in it: what depends on circumstances it leaves out. */
function checkPlanned({ file, warnings }: Tell, { piece, json }: Found): void {
  const isAboutFiles = json.action.op === 'All' || JSON.stringify(json.action).includes('"file.');
  const isOpen =
    namedIn(json.resource) === undefined &&
    (json.resource.op !== 'is' || json.resource.entity_type === 'Path');
  const asks = json.annotations?.ask !== undefined;
  if (json.effect !== 'forbid' || !isAboutFiles || !isOpen || json.conditions.length === 0) return;
  if (asks && isAboutTrees(json)) return;
  const says = asks ? 'asks about' : 'forbids';
  warnings.push({
    file,
    line: piece.line,
    message: `${says} files by circumstances that a box cannot know`,
    hint: 'Boxes of these agents show no files at all. Name the place: resource in Path::"…".',
  });
}

type Named = { type: string; id: string };

function entitiesIn(json: PolicyJson): Named[] {
  const found: Named[] = [];
  const walk = (value: unknown): void => {
    if (Array.isArray(value)) for (const one of value) walk(one);
    else if (typeof value === 'object' && value !== null) {
      const { type, id } = value as Partial<Named>;
      if (typeof type === 'string' && typeof id === 'string') found.push({ type, id });
      else for (const one of Object.values(value)) walk(one);
    }
  };
  walk([json.principal, json.resource, json.conditions]);
  return found;
}
