/** Schemas of a store in request bodies: complete for creation, partial for changes. */
import { Type, type Static } from 'typebox';
import { readOnly } from '#http/inputs.ts';
import { EMAIL_LENGTH_MAX } from '#core/email.ts';
import {
  DOMAIN_LENGTH_MAX,
  NAME_LENGTH_MAX,
  SECOND_FACTOR,
  SUBSCRIPTION_EVENTS,
  type SecondFactorRule,
  type StoreDetails,
  type SubscriptionEvents,
} from './rules.ts';

const name = Type.String({ minLength: 1, maxLength: NAME_LENGTH_MAX, description: 'The name of the store.' });
const domain = Type.String({
  minLength: 1,
  maxLength: DOMAIN_LENGTH_MAX,
  description: 'The host name of the shop, such as shop.example.com.',
});
const email = Type.String({ maxLength: EMAIL_LENGTH_MAX, description: 'The address for mails about the store.' });
const timeZone = Type.String({
  minLength: 1,
  description: 'The IANA time zone, such as Europe/Berlin, in which the dates of the store are shown.',
});

const subscriptionEvents = Type.Optional(
  Type.Unsafe<SubscriptionEvents>({
    enum: SUBSCRIPTION_EVENTS,
    description: 'Whether Halcyon derives subscription events or the platform publishes them; set by the platform.',
    isOfPlatform: true,
  }),
);

const secondFactor = Type.Optional(
  Type.Unsafe<SecondFactorRule>({
    enum: SECOND_FACTOR,
    description: 'Whether every member needs a second factor to sign in; set by owners.',
    isSensitive: true,
  }),
);

const readOnlyProperties = {
  id: readOnly(),
  is_sandbox: readOnly(),
  date_created: readOnly(),
  date_modified: readOnly(),
};

export const wholeStore = Type.Object(
  {
    name,
    domain,
    email,
    time_zone: timeZone,
    subscription_events: subscriptionEvents,
    second_factor: secondFactor,
    ...readOnlyProperties,
  },
  { additionalProperties: false },
);

export const partOfStore = Type.Object(
  {
    name: Type.Optional(name),
    domain: Type.Optional(domain),
    email: Type.Optional(email),
    time_zone: Type.Optional(timeZone),
    subscription_events: subscriptionEvents,
    second_factor: secondFactor,
    ...readOnlyProperties,
  },
  { additionalProperties: false },
);

export type StorePart = Static<typeof partOfStore>;

/** Returns the details after applying the members of the body. */
export function detailsOf(present: StoreDetails, body: StorePart): StoreDetails {
  return {
    name: body.name ?? present.name,
    domain: body.domain ?? present.domain,
    email: body.email ?? present.email,
    timeZone: body.time_zone ?? present.timeZone,
    subscriptionEvents: body.subscription_events ?? present.subscriptionEvents,
    secondFactor: body.second_factor ?? present.secondFactor,
  };
}
