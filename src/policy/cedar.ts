// Wraps the Cedar engine (wasm). It is loaded at the first decision, so that an idle runtime does
// not pay for its memory.
import { readFileSync } from 'node:fs';
import type * as CedarWasm from '@cedar-policy/cedar-wasm/nodejs';
import type { PolicyValue } from './request.ts';

export type Uid = CedarWasm.TypeAndId;
export type PolicyJson = CedarWasm.PolicyJson;
export type DetailedError = CedarWasm.DetailedError;
export type Circumstances = Record<string, PolicyValue>;

export type CedarRequest = {
  principal: Uid;
  action: Uid;
  resource: Uid;
  context: Circumstances;
  entities: { uid: Uid; parents: Uid[] }[];
};
/** The ids of the rules that match, and of those that could not be evaluated. */
export type Response =
  | { ok: true; holding: string[]; failed: string[] }
  | { ok: false; problem: string };

export type ParseResult = { ok: true; json: PolicyJson } | { ok: false; errors: DetailedError[] };

export type Cedar = {
  /** Parses the text of one rule. */
  parse(text: string): ParseResult;
  /**
   * Validates against the schema; `warnings` are rules that can never match. `argumentsType` types
   * `context.arguments`, which rules cannot read without it.
   */
  validate(
    rules: Record<string, string>,
    argumentsType?: string,
  ): {
    errors: { id: string; error: DetailedError }[];
    warnings: { id: string; error: DetailedError }[];
  };
  /**
   * Returns which of these rules match. They must be all permits or all forbids, because Cedar
   * names only the rules that decided. They are parsed once and cached by the key, which must
   * always stand for the same rules.
   */
  hold(key: string, rules: () => Record<string, string>, question: CedarRequest): Response;
};

/** Cedar cannot free a parsed set, but a name can be reused. */
const SLOTS_MAX = 64;

const readText = (name: string): string =>
  readFileSync(new URL(`./${name}`, import.meta.url), 'utf8');

export const readBaseText = (): string => readText('base.cedar');

let loading: Promise<Cedar> | undefined;
let loaded: Cedar | undefined;

export function loadCedar(): Promise<Cedar> {
  loading ??= import('@cedar-policy/cedar-wasm/nodejs').then((module) => {
    // It is CommonJS: Node detects its named exports, but a bundle has only the default export.
    const { default: whole } = module as unknown as { default: typeof CedarWasm };
    loaded = makeCedar(whole);
    return loaded;
  });
  loading.catch(() => {
    loading = undefined;
  });
  return loading;
}

/** Returns undefined before loadCedar has resolved. */
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
    validate(rules, argumentsType) {
      const whole = argumentsType === undefined ? schema : withArguments(schema, argumentsType);
      const found = wasm.validate({ schema: whole, policies: { staticPolicies: rules } });
      if (found.type === 'failure')
        return { errors: found.errors.map((error) => ({ id: '', error })), warnings: [] };
      const plain = ({ policyId, error }: CedarWasm.ValidationError) => ({ id: policyId, error });
      return {
        errors: found.validationErrors.map(plain),
        warnings: found.validationWarnings.map(plain),
      };
    },
    hold(key, rules, { entities, ...question }) {
      const slot = slots.acquireSlot(key, rules);
      if (!slot.ok) return slot;
      const result = wasm.statefulIsAuthorized({
        ...question,
        context: question.context as CedarWasm.Context,
        entities: entities.map((entity) => ({ ...entity, attrs: {} })),
        preparsedPolicySetId: slot.name,
        validateRequest: false,
      });
      if (result.type === 'failure')
        return { ok: false, problem: result.errors.map(({ message }) => message).join('; ') };
      const { reason, errors } = result.response.diagnostics;
      return { ok: true, holding: reason, failed: errors.map(({ policyId }) => policyId) };
    },
  };
}

/** The last attribute of tool.call, after which the arguments of one tool are added. */
const LAST_ATTRIBUTE = 'delegated_tools?: Set<String>';

function withArguments(schema: string, type: string): string {
  if (!schema.includes(LAST_ATTRIBUTE)) throw new Error(`the schema has no ${LAST_ATTRIBUTE}`);
  return schema.replace(LAST_ATTRIBUTE, () => `${LAST_ATTRIBUTE}, arguments: ${type}`);
}

type Slot = { ok: true; name: string } | { ok: false; problem: string };

/** A new set reuses the name, and so Cedar's memory, of the least recently used one. */
function makeSlots(wasm: typeof CedarWasm) {
  const names = new Map<string, string>();
  const free = Array.from({ length: SLOTS_MAX }, (_, i) => `rules-${i}`);
  return {
    acquireSlot(key: string, rules: () => Record<string, string>): Slot {
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
