// Cedar, loaded at the first decision and not before: an idle runtime does not pay for it. Knows
// how to ask it; what is asked is decide.ts's.
import { readFileSync } from 'node:fs';
import type * as CedarWasm from '@cedar-policy/cedar-wasm/nodejs';

export type Uid = CedarWasm.TypeAndId;
export type PolicyJson = CedarWasm.PolicyJson;
export type DetailedError = CedarWasm.DetailedError;
export type Circumstances = Record<string, string | number | boolean | readonly string[]>;

export type CedarRequest = {
  principal: Uid;
  action: Uid;
  resource: Uid;
  context: Circumstances;
  entities: { uid: Uid; parents: Uid[] }[];
};
/** Ids of the rules whose conditions hold, and of those that could not be evaluated. */
export type Response =
  | { ok: true; holding: string[]; failed: string[] }
  | { ok: false; problem: string };

export type ParseResult = { ok: true; json: PolicyJson } | { ok: false; errors: DetailedError[] };

export type Cedar = {
  /** One rule's text. */
  parse(text: string): ParseResult;
  /** Against the schema; `warnings` are rules that could never hold. */
  validate(rules: Record<string, string>): {
    errors: { id: string; error: DetailedError }[];
    warnings: { id: string; error: DetailedError }[];
  };
  /**
   * Which of these rules hold; all of them permit, or all of them forbid, because Cedar names only
   * those that decided. They are parsed once and kept under the key, which must stand for the same
   * rules for ever.
   */
  hold(key: string, rules: () => Record<string, string>, question: CedarRequest): Response;
};

/**
 * Parsed sets that are kept. Cedar has no way to drop one, but a name can be used again.
 */
const SLOTS_MAX = 64;

const readText = (name: string): string =>
  readFileSync(new URL(`./${name}`, import.meta.url), 'utf8');

/** The rules that ship with agentd. */
export const readBaseText = (): string => readText('base.cedar');

let loading: Promise<Cedar> | undefined;
let loaded: Cedar | undefined;

export function loadCedar(): Promise<Cedar> {
  loading ??= import('@cedar-policy/cedar-wasm/nodejs').then((module) => {
    // It is CommonJS: Node finds its names, in a bundle it is only the default.
    const { default: whole } = module as unknown as { default: typeof CedarWasm };
    loaded = makeCedar(whole);
    return loaded;
  });
  loading.catch(() => {
    loading = undefined;
  });
  return loading;
}

/** undefined until somebody has loaded it. */
export const cedarIfLoaded = (): Cedar | undefined => loaded;

function makeCedar(wasm: typeof CedarWasm): Cedar {
  const schema = readText('schema.cedarschema');
  const slots = makeSlots(wasm);
  return {
    parse(text) {
      const found = wasm.policyToJson(text);
      if (found.type === 'success') return { ok: true, json: found.json };
      return { ok: false, errors: found.errors };
    },
    validate(rules) {
      const found = wasm.validate({ schema, policies: { staticPolicies: rules } });
      if (found.type === 'failure')
        return { errors: found.errors.map((error) => ({ id: '', error })), warnings: [] };
      const plain = ({ policyId, error }: CedarWasm.ValidationError) => ({ id: policyId, error });
      return {
        errors: found.validationErrors.map(plain),
        warnings: found.validationWarnings.map(plain),
      };
    },
    hold(key, rules, { entities, ...question }) {
      const slot = slots.slotOf(key, rules);
      if (!slot.ok) return slot;
      const answer = wasm.statefulIsAuthorized({
        ...question,
        context: question.context as CedarWasm.Context,
        entities: entities.map((entity) => ({ ...entity, attrs: {} })),
        preparsedPolicySetId: slot.name,
        validateRequest: false,
      });
      if (answer.type === 'failure')
        return { ok: false, problem: answer.errors.map(({ message }) => message).join('; ') };
      const { reason, errors } = answer.response.diagnostics;
      return { ok: true, holding: reason, failed: errors.map(({ policyId }) => policyId) };
    },
  };
}

type Slot = { ok: true; name: string } | { ok: false; problem: string };

/** The least recently used set gives its name, and with it Cedar's memory, to a new one. */
function makeSlots(wasm: typeof CedarWasm) {
  const names = new Map<string, string>();
  const free = Array.from({ length: SLOTS_MAX }, (_, i) => `rules-${i}`);
  return {
    slotOf(key: string, rules: () => Record<string, string>): Slot {
      const known = names.get(key);
      if (known !== undefined) {
        names.delete(key);
        names.set(key, known);
        return { ok: true, name: known };
      }
      const oldest = names.keys().next().value;
      const name = free.pop() ?? names.get(oldest!)!;
      if (oldest !== undefined && names.get(oldest) === name) names.delete(oldest);
      const parsed = wasm.preparsePolicySet(name, { staticPolicies: rules() });
      if (parsed.type === 'failure') {
        free.push(name);
        return { ok: false, problem: parsed.errors.map(({ message }) => message).join('; ') };
      }
      names.set(key, name);
      return { ok: true, name };
    },
  };
}
