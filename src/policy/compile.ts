// Parses a bundle's rules with Cedar: base and site rules once, an agent's own at its first
// request. Selects the rules whose principal fits; decide.ts evaluates them.
import type { Bundle } from './bundle.ts';
import { type Cedar, readBaseText } from './cedar.ts';
import type { EntityParents } from './entities.ts';
import { expandManifestRules } from './manifest-rules.ts';
import type { EntityUid } from './principals.ts';
import { makeRule, quote, type Rule, type RuleText, scopeFits } from './rule.ts';
import { splitRules } from './rule-text.ts';

export type CompiledBase = {
  rules: Rule[];
  /** Those that read the arguments of a call. No rule of a manifest does. */
  argumentRules: Rule[];
};
export type CompiledPolicy = { principal: EntityParents; rules: Rule[] };

export function compileBase(cedar: Cedar, bundle: Bundle): CompiledBase {
  const own = splitRules(readBaseText()).map(({ text, line }): RuleText => {
    const id = /^@id\("([a-z0-9-]+)"\)/.exec(text)?.[1] ?? String(line);
    return { id: `base:${id}`, text, from: 'every site' };
  });
  const texts = [...own, ...protectDirs(bundle.protected), ...siteTexts(bundle)];
  const rules = parseRules(cedar, texts);
  return { rules, argumentRules: rules.filter(({ readsArguments }) => readsArguments) };
}

export function siteTexts(bundle: Pick<Bundle, 'site'>): RuleText[] {
  return bundle.site.flatMap(({ file, text }) =>
    splitRules(text).map((piece, i) => ({
      id: `site:${file}:${i + 1}`,
      text: piece.text,
      from: `${file}:${piece.line}`,
    })),
  );
}

/** Returns rules that forbid the runtime's own directories. */
function protectDirs(dirs: readonly string[]): RuleText[] {
  return dirs.map((dir, i) => ({
    id: `base:runtime:${i + 1}`,
    from: dir,
    text:
      '@why("it belongs to the runtime") forbid (principal is Agent, action in ' +
      '[Action::"file.read", Action::"file.write", Action::"file.delete"], ' +
      `resource in Path::${quote(dir)});`,
  }));
}

export function compileAgent(
  cedar: Cedar,
  bundle: Bundle,
  base: CompiledBase,
  uid: EntityUid,
): CompiledPolicy {
  const principal: EntityParents = { uid, parents: findParents(bundle, uid) };
  const shared = base.rules.filter(({ scope }) => scopeFits(scope.principal, principal));
  if (uid.type !== 'Agent' || !Object.hasOwn(bundle.agents, uid.id))
    return { principal, rules: shared };
  const manifest = parseRules(cedar, expandManifestRules(uid.id, bundle.agents[uid.id]!));
  return { principal, rules: [...shared, ...manifest] };
}

const EVERY_ROLE = ['approver', 'admin'];

function findParents({ agents, people }: Bundle, { type, id }: EntityUid): EntityUid[] {
  if (type === 'Agent') {
    const groups = Object.hasOwn(agents, id) ? (agents[id]!.groups ?? []) : [];
    return groups.map((group) => ({ type: 'Group', id: group }));
  }
  if (type !== 'Person') return [];
  if (people === null) return EVERY_ROLE.map((role) => ({ type: 'Role', id: role }));
  const roles = Object.hasOwn(people, id) ? people[id]!.roles : [];
  return roles.map((role) => ({ type: 'Role', id: role }));
}

function parseRules(cedar: Cedar, texts: readonly RuleText[]): Rule[] {
  return texts.map((text) => {
    const parsed = cedar.parse(text.text);
    if (!parsed.ok) throw new Error(`the rule ${text.id}: ${parsed.errors[0]?.message}`);
    return makeRule(text, parsed.json);
  });
}
