// Lists the models this server offers and their limits. The folder of each wire decides what it
// refuses because of them.

export type Model = {
  readonly id: string;
  readonly kind: 'chat' | 'embedding';
  readonly contextTokensMax: number;
  readonly outputTokensMax: number;
  readonly dimensions: number;
  /**
   * Behaves like the vendors' newer models: fixed sampling, no prefill, system messages anywhere.
   */
  readonly isModern: boolean;
};

export const MODELS: readonly Model[] = [
  {
    id: 'rehearsal-large',
    kind: 'chat',
    contextTokensMax: 200_000,
    outputTokensMax: 64_000,
    dimensions: 0,
    isModern: true,
  },
  {
    id: 'rehearsal-small',
    kind: 'chat',
    contextTokensMax: 32_000,
    outputTokensMax: 8_192,
    dimensions: 0,
    isModern: false,
  },
  {
    id: 'rehearsal-embed',
    kind: 'embedding',
    contextTokensMax: 8_192,
    outputTokensMax: 0,
    dimensions: 256,
    isModern: false,
  },
];

const MODELS_BY_ID = new Map(MODELS.map((model) => [model.id, model]));

export function findModel(id: string): Model | undefined {
  return MODELS_BY_ID.get(id);
}
