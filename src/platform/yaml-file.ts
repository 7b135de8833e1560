// Reads YAML files that people write and checks them against a schema: every problem has its line,
// and an unknown key the nearest known one. A custom issue of a schema can bring its own hint, in
// `params.hint`.
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import type { z } from 'zod';
import type { FileProblem } from '../wire/primitives.ts';
import { checkValue } from './check.ts';
import { findNearest } from './did-you-mean.ts';
import { knownKeys } from './schema-messages.ts';

export type YamlProblem = FileProblem & {
  /** With `value`, the message explains everything and the hint adds nothing. */
  reason: 'syntax' | 'second_document' | 'alias' | 'unknown_key' | 'value' | 'custom';
};
export type YamlResult<T> = { ok: true; value: T } | { ok: false; problems: YamlProblem[] };

export function readYaml<S extends z.ZodType>(
  text: string,
  file: string,
  schema: S,
): YamlResult<z.output<S>> {
  const lines = new LineCounter();
  // Aliases can expand a small file into a huge value; nothing here needs them.
  const doc = parseDocument(text, {
    lineCounter: lines,
    uniqueKeys: true,
    maxAliasCount: 0,
  } as never);
  if (doc.errors.length > 0) {
    return {
      ok: false,
      problems: doc.errors.slice(0, 10).map((error) => ({
        reason: error.code === 'MULTIPLE_DOCS' ? 'second_document' : 'syntax',
        file,
        line: error.linePos?.[0].line ?? null,
        message: firstLine(error.message),
        hint: 'Correct the YAML at this line.',
      })),
    };
  }
  let plain: unknown;
  try {
    plain = doc.toJS({ maxAliasCount: 0 });
  } catch (error) {
    return {
      ok: false,
      problems: [
        {
          reason: 'alias',
          file,
          line: null,
          message: (error as Error).message,
          hint: 'Write the values out instead of using aliases.',
        },
      ],
    };
  }
  const checked = checkValue(schema, plain ?? {});
  if (checked.success) return { ok: true, value: checked.data };
  const lineFor = (path: PropertyKey[]) => findLine(doc.contents as Node | null, path, lines);
  const problems = checked.issues
    .slice(0, 20)
    .flatMap((issue) => toProblems(issue, schema, file, lineFor))
    .sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
  return { ok: false, problems };
}

type Issue = z.core.$ZodIssue;

function toProblems(
  issue: Issue,
  schema: z.ZodType,
  file: string,
  lineFor: (path: PropertyKey[]) => number | null,
): YamlProblem[] {
  const where = issue.path.map(String).join('.');
  if (issue.code === 'unrecognized_keys') {
    const known = knownKeys(schema, issue.path);
    return issue.keys.map((key) => {
      const near = findNearest(key, known);
      return {
        reason: 'unknown_key',
        file,
        line: lineFor([...issue.path, key]),
        message: `unknown key ${where === '' ? key : `${where}.${key}`}`,
        hint:
          near === undefined
            ? `Known keys here: ${known.join(', ') || 'none'}.`
            : `Did you mean ${near}?`,
      };
    });
  }
  const hint = issue.code === 'custom' ? (issue.params?.hint as unknown) : undefined;
  return [
    {
      reason: hint === undefined ? 'value' : 'custom',
      file,
      line: lineFor(issue.path),
      message: where === '' ? issue.message : `${where}: ${issue.message}`,
      hint: hint === undefined ? 'Correct the value at this line.' : String(hint),
    },
  ];
}

function firstLine(text: string): string {
  return text.split('\n')[0]!.replace(/ at line \d+, column \d+:?$/, '');
}

function findLine(root: Node | null, path: PropertyKey[], lines: LineCounter): number | null {
  let node: Node | null = root;
  let at: number | undefined = node?.range?.[0];
  for (const step of path) {
    if (isMap(node)) {
      const pair = node.items.find(
        (item) => isScalar(item.key) && String(item.key.value) === String(step),
      );
      if (pair === undefined) break;
      at = (pair.key as Node).range?.[0] ?? at;
      node = pair.value as Node | null;
    } else if (isSeq(node)) {
      node = (node.items[Number(step)] as Node | undefined) ?? null;
      at = node?.range?.[0] ?? at;
    } else break;
  }
  return at === undefined ? null : lines.linePos(at).line;
}
