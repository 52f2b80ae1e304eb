/** Hashes that take 0.1 ms: at the real cost they took a fifth of the processor time of `npm test`. */
import { createPasswords, type PasswordCost } from '#identity/accounts/users.ts';

export const LOW_COST: PasswordCost = { memory: 8, passes: 1, parallelism: 1 };

export const passwords = createPasswords({ hashesAtOnce: 2, cost: LOW_COST });
