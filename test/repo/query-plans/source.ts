// Finds the SQL statements in the source: strings that start with a verb of SQL, with holes where
// the text is known only at run time.
import { listFiles, type Node, readSource, walkSyntax } from '../../../tools/source.ts';

export type SourceStatement = {
  path: string;
  line: number;
  /** Matches the statement, alone or as a part of a larger one. */
  matches(statement: string): boolean;
  matchesWhole(statement: string): boolean;
  /** The length of the text that is known. */
  knownChars: number;
};

/** Pieces of known text; there is a hole between each two. */
type Text = string[];

const VERB = /^\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH)\s/;

export function findStatements(root: string): SourceStatement[] {
  return listFiles(root)
    .filter(
      (path) =>
        /^src\/(daemons|platform|policy|entry)\/.*\.ts$/.test(path) &&
        !/\.test\.ts$|\/testing\b|\/postgres\.ts$/.test(path),
    )
    .flatMap((path) => findInFile(root, path));
}

function findInFile(root: string, path: string): SourceStatement[] {
  const source = readSource(root, path);
  if (!source.text.includes('SELECT') && !/INSERT|UPDATE|DELETE/.test(source.text)) return [];
  const constants = new Map<string, Node>();
  walkSyntax(source, (node) => {
    const { id, init } = node as { id?: Node; init?: Node | null };
    if (node.type === 'VariableDeclarator' && id?.type === 'Identifier' && init != null)
      constants.set(String(id.name), init);
  });
  const found: SourceStatement[] = [];
  const fragments = listFragments(source, constants);
  const step = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    const text = Array.isArray(value) ? undefined : readText(value as Node, constants);
    if (text === undefined) {
      Object.values(value).forEach(step);
      return;
    }
    const node = value as Node;
    if (VERB.test(text[0]!) && !fragments.has(node))
      found.push(makeStatement(path, source.lineAt(node.start), text));
    stepIntoHoles(node);
  };
  const stepIntoHoles = (node: Node): void => {
    for (const part of listParts(node))
      if (readText(part, constants) === undefined) step(part);
      else stepIntoHoles(part);
  };
  step(source.program);
  return found;
}

/** Returns the constants that are only ever a part of another string. */
function listFragments(
  source: Parameters<typeof walkSyntax>[0],
  constants: ReadonlyMap<string, Node>,
): Set<Node> {
  const inStrings = new Map<string, number>();
  const anywhere = new Map<string, number>();
  const count = (counts: Map<string, number>, name: string) =>
    counts.set(name, (counts.get(name) ?? 0) + 1);
  walkSyntax(source, (node) => {
    if (node.type === 'Identifier' && constants.has(String(node.name)))
      count(anywhere, String(node.name));
    for (const part of listParts(node))
      if (part.type === 'Identifier') count(inStrings, String(part.name));
  });
  const fragments = [...constants].filter(
    // Its declaration is the one place outside of strings.
    ([name]) => inStrings.has(name) && anywhere.get(name) === inStrings.get(name)! + 1,
  );
  return new Set(fragments.map(([, init]) => init));
}

function listParts(node: Node): Node[] {
  if (node.type === 'TemplateLiteral') return node.expressions as Node[];
  if (node.type === 'BinaryExpression' && node.operator === '+')
    return [node.left as Node, node.right as Node];
  return [];
}

/** Returns undefined for what is no string. */
function readText(node: Node, constants: ReadonlyMap<string, Node>): Text | undefined {
  if (node.type === 'Literal') return typeof node.value === 'string' ? [node.value] : undefined;
  const readPart = (part: Node): Text => {
    const constant = part.type === 'Identifier' ? constants.get(String(part.name)) : undefined;
    return readText(constant ?? part, constants) ?? ['', ''];
  };
  if (node.type === 'TemplateLiteral') {
    const quasis = (node.quasis as { value: { cooked: string } }[]).map(
      ({ value }) => value.cooked,
    );
    return (node.expressions as Node[]).reduce<Text>(
      (text, part, i) => join(join(text, readPart(part)), [quasis[i + 1]!]),
      [quasis[0]!],
    );
  }
  if (node.type === 'BinaryExpression' && node.operator === '+')
    return join(readPart(node.left as Node), readPart(node.right as Node));
  return undefined;
}

const join = (a: Text, b: Text): Text => [...a.slice(0, -1), a.at(-1)! + b[0]!, ...b.slice(1)];

function makeStatement(path: string, line: number, text: Text): SourceStatement {
  const pattern = text.map((piece) => RegExp.escape(piece)).join('[\\s\\S]*');
  const whole = new RegExp(`^${pattern}$`);
  const part = new RegExp(`(\\(|UNION ALL )${pattern}(\\)| UNION ALL|$)`);
  return {
    path,
    line,
    knownChars: text.join('').length,
    matchesWhole: (statement) => whole.test(statement),
    matches: (statement) => whole.test(statement) || part.test(statement),
  };
}
