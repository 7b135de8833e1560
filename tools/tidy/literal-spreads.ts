// Finds literals that are spread into a literal or a call only to fit a line: `{ ...{ a, b } }`.
import { type Finding, type Node, type Source, walkSyntax } from '../source.ts';

const isSpreadOf = (type: string) => (node: unknown) => {
  const { type: kind, argument } = (node ?? {}) as { type?: string; argument?: Node };
  return kind === 'SpreadElement' && argument?.type === type;
};

export function checkLiteralSpreads(path: string, source: Source): Finding[] {
  if (!/\.\.\.[{[]/.test(source.text)) return [];
  const found: Finding[] = [];
  walkSyntax(source, (node) => {
    const { properties, elements, arguments: given } = node as Record<string, unknown>;
    const spreads = [
      ...(node.type === 'ObjectExpression' ? (properties as Node[]) : []).filter(
        isSpreadOf('ObjectExpression'),
      ),
      ...(((node.type === 'ArrayExpression' ? elements : given) ?? []) as Node[]).filter(
        isSpreadOf('ArrayExpression'),
      ),
    ];
    for (const { start } of spreads) {
      const text = 'a literal is spread into a literal: write its members out';
      found.push({ path, line: source.lineAt(start), text });
    }
  });
  return found;
}
