// Finds product code that decides by the text of a message. Texts are written for people and
// change; a fault's code and the reason in its details are made for deciding.
import { type Finding, type Node, type Source, walkSyntax } from '../source.ts';

/** Product code only: tests may look at every text. */
const productCode = /^src\/(?!.*(?:\.test\.ts$|\/testing\/))/;

/** Files that may test foreign messages, because the foreign code provides only text. */
const ALLOWED: Readonly<Record<string, string>> = {
  'src/policy/site.ts': 'Cedar names the action of an error only in its message',
  'src/daemons/modeld/adapters/vendor-faults.ts':
    'many providers say only in the message that the context is too long',
};

const textNames = new Set(['message', 'hint']);
const testsOfReceiver = new Set([
  'includes',
  'startsWith',
  'endsWith',
  'match',
  'matchAll',
  'search',
  'indexOf',
  'lastIndexOf',
]);
const testsOfArgument = new Set(['test', 'exec', 'includes', 'has']);
const equality = new Set(['===', '!==', '==', '!=']);
const wrappers = new Set([
  'ChainExpression',
  'ParenthesizedExpression',
  'TSAsExpression',
  'TSNonNullExpression',
  'TSSatisfiesExpression',
]);

type Call = { callee: Node; arguments: Node[] };
type Member = { object: Node; property: Node; computed: boolean };

const memberOf = (node: Node): Member | undefined =>
  node.type === 'MemberExpression' ? (node as unknown as Member) : undefined;

/** `message`, `x.message`, `x?.message ?? ''`, and what a method of one of these returns. */
function isMessage(node: Node): boolean {
  if (wrappers.has(node.type)) return isMessage(node.expression as Node);
  if (node.type === 'LogicalExpression') return isMessage(node.left as Node);
  if (node.type === 'Identifier') return textNames.has(String(node.name));
  if (node.type === 'CallExpression') {
    const method = memberOf((node as unknown as Call).callee);
    return method !== undefined && isMessage(method.object);
  }
  const member = memberOf(node);
  return member !== undefined && !member.computed && textNames.has(String(member.property.name));
}

/** A literal text, in place or as a constant. An empty one has no meaning. */
const isFixedText = (node: Node): boolean =>
  (node.type === 'Literal' && typeof node.value === 'string' && node.value !== '') ||
  node.type === 'TemplateLiteral' ||
  (node.type === 'Identifier' && /^[A-Z][A-Z0-9_]+$/.test(String(node.name)));

function testsMessage(node: Node): boolean {
  if (node.type === 'SwitchStatement') return isMessage(node.discriminant as Node);
  if (node.type === 'BinaryExpression' && equality.has(String(node.operator))) {
    const [left, right] = [node.left as Node, node.right as Node];
    return (isMessage(left) && isFixedText(right)) || (isMessage(right) && isFixedText(left));
  }
  if (node.type !== 'CallExpression') return false;
  const { callee, arguments: given } = node as unknown as Call;
  const method = memberOf(callee);
  const name = String(method?.property.name);
  if (method === undefined || method.computed) return false;
  return (
    (testsOfReceiver.has(name) && isMessage(method.object)) ||
    (testsOfArgument.has(name) && given.some(isMessage))
  );
}

export function checkMessageTests(path: string, source: Source): Finding[] {
  if (!productCode.test(path) || !/\b(?:message|hint)\b/.test(source.text)) return [];
  const found: Finding[] = [];
  walkSyntax(source, (node) => {
    if (!testsMessage(node)) return;
    const text = 'decides by the text of a message: use the code or the reason of the fault';
    found.push({ path, line: source.lineAt(node.start), text });
  });
  if (!Object.hasOwn(ALLOWED, path)) return found;
  return found.length > 0 ? [] : [{ path, text: 'tests no message: take it off the allow list' }];
}
