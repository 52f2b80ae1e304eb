/** Types of the bodies of webhooks with the format json, made from the event catalogue by scripts/payload-types.ts. */

type Link = { readonly href: string; readonly title?: string };
type Properties = { readonly [name: string]: unknown };
/** The platform decides whether it embeds one resource or a list. */
type Embedded<Copy> = Copy | readonly Copy[];
type Links = { readonly curies: readonly unknown[]; readonly self: Link; readonly 'svc:store': Link };
/** Links that a resource has if there is something at the end. */
type LinksTo<Rel extends string> = { readonly [Name in Rel]?: Link };
/** The body of an event that has only the id of its resource. */
type Bare<Body extends { readonly _links: Links; readonly id: unknown }> = Pick<Body, 'id'> & { readonly _links: Pick<Body['_links'], keyof Links> };

/** A purchase: its items, its amounts and the state of its payment. */
export type Transaction = {
  readonly _links: Links & {
    readonly 'svc:send_webhooks': Link;
  } & LinksTo<'svc:items' | 'svc:customer' | 'svc:payments' | 'svc:applied_taxes' | 'svc:discounts' | 'svc:shipments' | 'svc:billing_addresses' | 'svc:custom_fields' | 'svc:attributes' | 'svc:subscription' | 'svc:transaction_logs' | 'svc:folder' | 'svc:applied_gift_card_codes' | 'svc:transaction_journal_entries'>;
  readonly _embedded?: {
    /** The articles of a transaction or of a transaction template. */
    readonly 'svc:items'?: Embedded<{
      readonly id?: unknown;
      readonly name?: unknown;
      readonly code?: unknown;
      readonly price?: unknown;
      readonly quantity?: unknown;
      readonly weight?: unknown;
      readonly _embedded?: {
        /** The selected options of an item, such as its size or colour. */
        readonly 'svc:item_options'?: Embedded<{
          readonly name?: unknown;
          readonly value?: unknown;
          readonly price_mod?: unknown;
          readonly weight_mod?: unknown;
          readonly [name: string]: unknown;
        }>;
        /** The category of an item, which determines shipping and taxes. */
        readonly 'svc:item_category'?: Embedded<{
          readonly code?: unknown;
          readonly name?: unknown;
          readonly item_delivery_type?: unknown;
          readonly [name: string]: unknown;
        }>;
        /** The quantity and price discounts on an item. */
        readonly 'svc:discount_details'?: Embedded<{
          readonly name?: unknown;
          readonly amount_per?: unknown;
          readonly [name: string]: unknown;
        }>;
        /** The coupons applied to an item, with their amounts. */
        readonly 'svc:coupon_details'?: Embedded<{
          readonly coupon_code?: unknown;
          readonly name?: unknown;
          readonly amount_per?: unknown;
          readonly [name: string]: unknown;
        }>;
        readonly [name: string]: unknown;
      };
      readonly [name: string]: unknown;
    }>;
    /** A person or company that buys in the store. */
    readonly 'svc:customer'?: Embedded<{
      readonly id?: unknown;
      readonly first_name?: unknown;
      readonly last_name?: unknown;
      readonly email?: unknown;
      readonly is_anonymous?: unknown;
      readonly last_login_date?: unknown;
      readonly date_created?: unknown;
      readonly date_modified?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The payments of a transaction: one entry per payment method. */
    readonly 'svc:payments'?: Embedded<{
      readonly type?: unknown;
      readonly amount?: unknown;
      readonly cc_type?: unknown;
      readonly cc_number_masked?: unknown;
      readonly date_created?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The taxes that were added to a transaction. */
    readonly 'svc:applied_taxes'?: Embedded<{
      readonly name?: unknown;
      readonly rate?: unknown;
      readonly amount?: unknown;
      readonly is_future_tax?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The discounts on the whole transaction. */
    readonly 'svc:discounts'?: Embedded<{
      readonly code?: unknown;
      readonly name?: unknown;
      readonly amount?: unknown;
      readonly display?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The shipping addresses and shipping services of a transaction. */
    readonly 'svc:shipments'?: Embedded<{
      readonly address1?: unknown;
      readonly city?: unknown;
      readonly postal_code?: unknown;
      readonly country?: unknown;
      readonly shipping_service_description?: unknown;
      readonly total_shipping?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The billing addresses of a transaction. */
    readonly 'svc:billing_addresses'?: Embedded<{
      readonly first_name?: unknown;
      readonly last_name?: unknown;
      readonly address1?: unknown;
      readonly city?: unknown;
      readonly postal_code?: unknown;
      readonly country?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** Additional fields that the store asks for at checkout. */
    readonly 'svc:custom_fields'?: Embedded<{
      readonly name?: unknown;
      readonly value?: unknown;
      readonly is_hidden?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** Names and values that an integration stores with a resource. */
    readonly 'svc:attributes'?: Embedded<{
      readonly name?: unknown;
      readonly value?: unknown;
      readonly visibility?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** A recurring order: its frequency, its start and end, and the template of its transactions. */
    readonly 'svc:subscription'?: Embedded<{
      readonly id?: unknown;
      readonly frequency?: unknown;
      readonly is_active?: unknown;
      readonly start_date?: unknown;
      readonly next_transaction_date?: unknown;
      readonly end_date?: unknown;
      readonly past_due_amount?: unknown;
      readonly first_failed_transaction_date?: unknown;
      readonly error_message?: unknown;
      readonly date_created?: unknown;
      readonly date_modified?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The operations on transactions, such as authorizations, captures and refunds. */
    readonly 'svc:transaction_logs'?: Embedded<{
      readonly id?: unknown;
      readonly transaction_id?: unknown;
      readonly action?: unknown;
      readonly response?: unknown;
      readonly amount?: unknown;
      readonly date_created?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The folder that the store has assigned to a transaction. */
    readonly 'svc:folder'?: Embedded<{
      readonly id?: unknown;
      readonly name?: unknown;
      readonly color?: unknown;
      readonly sort_order?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The gift cards that paid for a part of a transaction. */
    readonly 'svc:applied_gift_card_codes'?: Embedded<{
      readonly code?: unknown;
      readonly adjustment?: unknown;
      readonly date_created?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The accounting entries of a transaction. */
    readonly 'svc:transaction_journal_entries'?: Embedded<{
      readonly transaction_type?: unknown;
      readonly amount?: unknown;
      readonly gateway_type?: unknown;
      readonly date_created?: unknown;
      readonly [name: string]: unknown;
    }>;
    readonly [name: string]: unknown;
  };
  /** The id that the platform uses. */
  readonly id: number | string;
  readonly status?: unknown;
  readonly total_order?: unknown;
  readonly total_item_price?: unknown;
  readonly total_shipping?: unknown;
  readonly total_tax?: unknown;
  readonly currency_code?: unknown;
  readonly customer_email?: unknown;
  readonly transaction_date?: unknown;
  readonly date_created?: unknown;
  readonly date_modified?: unknown;
  /** true in test deliveries. */
  readonly is_sample?: unknown;
  readonly [name: string]: unknown;
};

/** A recurring order: its frequency, its start and end, and the template of its transactions. */
export type Subscription = {
  readonly _links: Links & {
    readonly 'svc:send_webhooks': Link;
  } & LinksTo<'svc:customer' | 'svc:transaction_template' | 'svc:last_transaction' | 'svc:original_transaction' | 'svc:transactions' | 'svc:attributes'>;
  readonly _embedded?: {
    /** A person or company that buys in the store. */
    readonly 'svc:customer'?: Embedded<{
      readonly id?: unknown;
      readonly first_name?: unknown;
      readonly last_name?: unknown;
      readonly email?: unknown;
      readonly is_anonymous?: unknown;
      readonly last_login_date?: unknown;
      readonly date_created?: unknown;
      readonly date_modified?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The template of the transactions of a subscription: its items, addresses and payment method. */
    readonly 'svc:transaction_template'?: Embedded<{
      readonly id?: unknown;
      readonly customer_email?: unknown;
      readonly total_order?: unknown;
      readonly currency_code?: unknown;
      readonly _embedded?: {
        /** The articles of a transaction or of a transaction template. */
        readonly 'svc:items'?: Embedded<{
          readonly id?: unknown;
          readonly name?: unknown;
          readonly code?: unknown;
          readonly price?: unknown;
          readonly quantity?: unknown;
          readonly weight?: unknown;
          readonly _embedded?: {
            /** The selected options of an item, such as its size or colour. */
            readonly 'svc:item_options'?: Embedded<{
              readonly name?: unknown;
              readonly value?: unknown;
              readonly price_mod?: unknown;
              readonly weight_mod?: unknown;
              readonly [name: string]: unknown;
            }>;
            readonly [name: string]: unknown;
          };
          readonly [name: string]: unknown;
        }>;
        readonly [name: string]: unknown;
      };
      readonly [name: string]: unknown;
    }>;
    /** The most recent transaction of the subscription. */
    readonly 'svc:last_transaction'?: Embedded<{
      readonly id?: unknown;
      readonly status?: unknown;
      readonly total_order?: unknown;
      readonly currency_code?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The transaction that started the subscription. */
    readonly 'svc:original_transaction'?: Embedded<{
      readonly id?: unknown;
      readonly status?: unknown;
      readonly total_order?: unknown;
      readonly currency_code?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The transactions of a store or of a subscription. */
    readonly 'svc:transactions'?: Embedded<{
      readonly id?: unknown;
      readonly status?: unknown;
      readonly total_order?: unknown;
      readonly total_item_price?: unknown;
      readonly total_shipping?: unknown;
      readonly total_tax?: unknown;
      readonly currency_code?: unknown;
      readonly customer_email?: unknown;
      readonly transaction_date?: unknown;
      readonly date_created?: unknown;
      readonly date_modified?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** Names and values that an integration stores with a resource. */
    readonly 'svc:attributes'?: Embedded<{
      readonly name?: unknown;
      readonly value?: unknown;
      readonly visibility?: unknown;
      readonly [name: string]: unknown;
    }>;
    readonly [name: string]: unknown;
  };
  /** The id that the platform uses. */
  readonly id: number | string;
  readonly frequency?: unknown;
  readonly is_active?: unknown;
  readonly start_date?: unknown;
  readonly next_transaction_date?: unknown;
  readonly end_date?: unknown;
  readonly past_due_amount?: unknown;
  readonly first_failed_transaction_date?: unknown;
  readonly error_message?: unknown;
  readonly date_created?: unknown;
  readonly date_modified?: unknown;
  /** true in test deliveries. */
  readonly is_sample?: unknown;
  readonly [name: string]: unknown;
};

/** A person or company that buys in the store. */
export type Customer = {
  readonly _links: Links & {
    readonly 'svc:send_webhooks': Link;
  } & LinksTo<'svc:attributes' | 'svc:customer_addresses' | 'svc:default_billing_address' | 'svc:default_shipping_address' | 'svc:default_payment_method'>;
  readonly _embedded?: {
    /** Names and values that an integration stores with a resource. */
    readonly 'svc:attributes'?: Embedded<{
      readonly name?: unknown;
      readonly value?: unknown;
      readonly visibility?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** All stored addresses of a customer. */
    readonly 'svc:customer_addresses'?: Embedded<{
      readonly address_name?: unknown;
      readonly address1?: unknown;
      readonly city?: unknown;
      readonly postal_code?: unknown;
      readonly country?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The default billing address of a customer. */
    readonly 'svc:default_billing_address'?: Embedded<{
      readonly first_name?: unknown;
      readonly last_name?: unknown;
      readonly address1?: unknown;
      readonly city?: unknown;
      readonly postal_code?: unknown;
      readonly country?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The default shipping address of a customer. */
    readonly 'svc:default_shipping_address'?: Embedded<{
      readonly first_name?: unknown;
      readonly last_name?: unknown;
      readonly address1?: unknown;
      readonly city?: unknown;
      readonly postal_code?: unknown;
      readonly country?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** The default payment method of a customer. */
    readonly 'svc:default_payment_method'?: Embedded<{
      readonly cc_type?: unknown;
      readonly cc_number_masked?: unknown;
      readonly cc_exp_month?: unknown;
      readonly cc_exp_year?: unknown;
      readonly save_cc?: unknown;
      readonly [name: string]: unknown;
    }>;
    readonly [name: string]: unknown;
  };
  /** The id that the platform uses. */
  readonly id: number | string;
  readonly first_name?: unknown;
  readonly last_name?: unknown;
  readonly email?: unknown;
  readonly is_anonymous?: unknown;
  readonly last_login_date?: unknown;
  readonly date_created?: unknown;
  readonly date_modified?: unknown;
  /** true in test deliveries. */
  readonly is_sample?: unknown;
  readonly [name: string]: unknown;
};

/** One operation on a transaction, such as an authorization, a capture or a refund. */
export type TransactionLog = {
  readonly _links: Links & {
    readonly 'svc:send_webhooks': Link;
  } & LinksTo<'svc:transaction' | 'svc:transaction_log_details'>;
  readonly _embedded?: {
    /** A purchase: its items, its amounts and the state of its payment. */
    readonly 'svc:transaction'?: Embedded<{
      readonly id?: unknown;
      readonly status?: unknown;
      readonly total_order?: unknown;
      readonly total_item_price?: unknown;
      readonly total_shipping?: unknown;
      readonly total_tax?: unknown;
      readonly currency_code?: unknown;
      readonly customer_email?: unknown;
      readonly transaction_date?: unknown;
      readonly date_created?: unknown;
      readonly date_modified?: unknown;
      readonly [name: string]: unknown;
    }>;
    /** Further details of an entry of a transaction log. */
    readonly 'svc:transaction_log_details'?: Embedded<{
      readonly name?: unknown;
      readonly value?: unknown;
      readonly [name: string]: unknown;
    }>;
    readonly [name: string]: unknown;
  };
  /** The id that the platform uses. */
  readonly id: number | string;
  readonly transaction_id?: unknown;
  readonly action?: unknown;
  readonly response?: unknown;
  readonly amount?: unknown;
  readonly date_created?: unknown;
  /** true in test deliveries. */
  readonly is_sample?: unknown;
  readonly [name: string]: unknown;
};

/** A change in the configuration of the store, with the actor and the properties that differ, before and after. The actor is a user on a page, an app that a user authorized, the platform, the operator or Halcyon itself; user is the id of the user, client the client_id of the app. Secrets are never included, only whether one was set, replaced or removed. Halcyon publishes it in the transaction of the change. */
export type Changelog = {
  readonly _links: Links & {
    readonly 'svc:send_webhooks': Link;
  };
  /** Allocated by Halcyon. */
  readonly id: number;
  /** What changed. */
  readonly resource: 'store' | 'webhook' | 'member' | 'invitation' | 'grant' | 'customer';
  /** The id of what changed: of a customer the one that the platform uses. */
  readonly resource_id: number | string;
  readonly action: 'created' | 'changed' | 'deleted' | 'accepted' | 'declined' | 'deactivated' | 'given' | 'revoked' | 'erased' | 'link_created' | 'link_used';
  /** Who made the change. */
  readonly actor: 'user' | 'app' | 'platform' | 'operator' | 'halcyon';
  /** The id of the user, if any. */
  readonly user: number | null;
  /** The client_id of the app, if any. */
  readonly client: string | null;
  /** The properties that differ, before the change; null if the resource did not exist. */
  readonly before: Properties | null;
  /** The properties that differ, after the change; null if the resource no longer exists. */
  readonly after: Properties | null;
  /** ISO 8601 with an offset, in the time zone of the store. */
  readonly date_created: string;
  /** true in test deliveries. */
  readonly is_sample?: unknown;
  readonly [name: string]: unknown;
};

/** An app that declares a webhook got access to the store, lost it, or has another scope, or the store is erased. scope is that of all grants of the app in the store together, null after the last one; previous_scope is the scope before, null before the first one; user is the id of the user whose grant began or ended, null if the app, the store or all its grants ended. An app reads only the changes of its own access. Halcyon publishes it in the transaction of the change. */
export type App = {
  readonly _links: Links & {
    readonly 'svc:send_webhooks': Link;
  };
  /** Allocated by Halcyon. */
  readonly id: number;
  /** The client_id of the app. */
  readonly client_id: string;
  /** The store. */
  readonly store_id: number;
  /** The scope of all grants of the app in the store together; null after the last one. */
  readonly scope: string | null;
  /** The scope before; null before the first grant. */
  readonly previous_scope: string | null;
  /** The id of the user whose grant began or ended; null if all grants ended, as with the app or the store. */
  readonly user: number | null;
  /** ISO 8601 with an offset, in the time zone of the store. */
  readonly date_created: string;
  /** true in test deliveries. */
  readonly is_sample?: unknown;
  readonly [name: string]: unknown;
};

/** What happened in any store, for the webhooks of the platform store alone (setting PLATFORM_STORE), so that the platform can mail its merchants itself. store_id is the store that it concerns, webhook_id the webhook and client_id the app, if there is one. reason is why: failures or gone of a webhook that was disabled, the reason of the operator for a store that was suspended. events_total is how many events did not arrive, in the hour that began at date_from. No app reads them. Halcyon publishes it within seconds. */
export type OperatorEvent = {
  readonly _links: Links & {
    readonly 'svc:send_webhooks': Link;
  } & LinksTo<'svc:concerned_store' | 'svc:webhook' | 'svc:client'>;
  /** Allocated by Halcyon. */
  readonly id: number;
  /** The store that the event concerns. */
  readonly store_id: number;
  /** The webhook that the event concerns; null without one. */
  readonly webhook_id: number | null;
  /** The client_id of the app that the event concerns; null without one. */
  readonly client_id: string | null;
  /** Why: failures or gone of a disabled webhook, the reason that an operator gave of a suspended store; else null. */
  readonly reason: string | null;
  /** How many events did not arrive at the webhook in one hour; null without one. */
  readonly events_total: number | null;
  /** When that hour began, like date_created; null without one. */
  readonly date_from: string | null;
  /** ISO 8601 with an offset, in the time zone of the store. */
  readonly date_created: string;
  /** true in test deliveries. */
  readonly is_sample?: unknown;
  readonly [name: string]: unknown;
};

/** A step in the lifecycle of a subscription (activated, modified, cancelled, billing_success, billing_failure, dunning or recovered), with the properties that differ. Halcyon derives it from two versions of the subscription, unless the platform publishes it itself. */
export type SubscriptionEvent = {
  readonly _links: Links & {
    readonly 'svc:send_webhooks': Link;
  } & LinksTo<'svc:subscription'>;
  readonly _embedded?: {
    /** A recurring order: its frequency, its start and end, and the template of its transactions. */
    readonly 'svc:subscription'?: Embedded<{
      readonly id?: unknown;
      readonly frequency?: unknown;
      readonly is_active?: unknown;
      readonly start_date?: unknown;
      readonly next_transaction_date?: unknown;
      readonly end_date?: unknown;
      readonly past_due_amount?: unknown;
      readonly first_failed_transaction_date?: unknown;
      readonly error_message?: unknown;
      readonly date_created?: unknown;
      readonly date_modified?: unknown;
      readonly [name: string]: unknown;
    }>;
    readonly [name: string]: unknown;
  };
  /** true in test deliveries. */
  readonly is_sample?: unknown;
  readonly [name: string]: unknown;
} & ({
  /** Allocated by Halcyon. */
  readonly id: number;
  /** As published by the platform. */
  readonly subscription_id: number | string;
  /** The step. */
  readonly event: 'activated' | 'recovered' | 'billing_success' | 'billing_failure' | 'dunning' | 'cancelled' | 'modified';
  /** The amount that was billed, is past due or was recovered; null for other steps. */
  readonly amount: number | string | null;
  /** As published by the platform. */
  readonly currency_code: number | string | null;
  /** The properties that differ, before the step; null for a new subscription. */
  readonly before: Properties | null;
  /** The properties that differ, after the step; null for a new subscription. */
  readonly after: Properties | null;
  /** ISO 8601 with an offset, in the time zone of the store. */
  readonly date_created: string;
  readonly [name: string]: unknown;
} | {
  /** The id that the platform uses. */
  readonly id: number | string;
  readonly subscription_id?: unknown;
  readonly event?: unknown;
  readonly amount?: unknown;
  readonly currency_code?: unknown;
  readonly before?: unknown;
  readonly after?: unknown;
  readonly date_created?: unknown;
  readonly [name: string]: unknown;
});

/** The monthly recurring revenue of the store on one day, per currency, with the changes since the day before: new, expansion, contraction, churn and reactivation. Halcyon publishes it once a day. */
export type SubscriptionMrrSnapshot = {
  readonly _links: Links & {
    readonly 'svc:send_webhooks': Link;
  };
  /** Allocated by Halcyon. */
  readonly id: number;
  /** The day, as YYYY-MM-DD. */
  readonly date: string;
  readonly currencies: readonly {
    /** ISO 4217. */
    readonly currency_code: string;
    readonly mrr: number;
    readonly new: number;
    readonly expansion: number;
    readonly contraction: number;
    readonly churn: number;
    readonly reactivation: number;
    /** The number of active subscriptions. */
    readonly active_count: number;
    readonly [name: string]: unknown;
  }[];
  /** ISO 8601 with an offset, in the time zone of the store. */
  readonly date_created: string;
  /** true in test deliveries. */
  readonly is_sample?: unknown;
  readonly [name: string]: unknown;
};

/** The body of each event, without `fields` in the query of the webhook. */
export type Payloads = {
  /** A transaction is created, such as by a checkout or by the billing of a subscription. */
  'transaction/created': Transaction;
  /** A transaction changes in a way that no other event describes. */
  'transaction/modified': Transaction;
  /** A payment of a transaction is captured. */
  'transaction/captured': Transaction;
  /** A transaction is refunded, wholly or in part. */
  'transaction/refunded': Transaction;
  /** A transaction is voided before its payment is captured. */
  'transaction/voided': Transaction;
  /** The platform deletes a transaction. */
  'transaction/deleted': Bare<Transaction>;
  /** A subscription is created. */
  'subscription/created': Subscription;
  /** A subscription changes, such as its frequency, its next date or an amount past due. */
  'subscription/modified': Subscription;
  /** A subscription is cancelled: it gets an end date, or ends. */
  'subscription/cancelled': Subscription;
  /** The platform deletes a subscription. */
  'subscription/deleted': Bare<Subscription>;
  /** A customer is created. */
  'customer/created': Customer;
  /** A customer changes, such as a name, an address or an attribute. */
  'customer/modified': Customer;
  /** The platform deletes a customer. */
  'customer/deleted': Bare<Customer>;
  /** A customer asks which data is stored about them (GDPR, article 15). */
  'customer/data_requested': Bare<Customer>;
  /** The data of a customer is erased: erase your copies, too (GDPR, articles 17 and 19). */
  'customer/erased': Bare<Customer>;
  /** An operation on a transaction is logged, such as an authorization or a capture. */
  'transaction_log/created': TransactionLog;
  /** The configuration of the store changes: a webhook, a member, an app or the store itself. */
  'changelog/created': Changelog;
  /** The store lets in an app that declares a webhook: the first user gives the app access to the store. */
  'app/installed': App;
  /** An app that declares a webhook loses its access to the store, for whatever reason. */
  'app/uninstalled': App;
  /** The scope of an app that declares a webhook changes in the store: the scopes of all its grants together. */
  'app/scopes_changed': App;
  /** The store of an app that declares a webhook is erased; no other webhook is sent this event. */
  'app/store_erased': App;
  /** Halcyon disables a webhook of any store: its deliveries kept failing, or its endpoint answered 410. */
  'operator_event/webhook_disabled': OperatorEvent;
  /** An hour has ended in which events failed for good to arrive at a webhook of any store; once per webhook. */
  'operator_event/delivery_exhausted': OperatorEvent;
  /** An app gets its first access to a store that a member gives it. */
  'operator_event/app_installed': OperatorEvent;
  /** An app loses the last access to a store that a member gave it. */
  'operator_event/app_uninstalled': OperatorEvent;
  /** A store is created. */
  'operator_event/store_created': OperatorEvent;
  /** An operator suspends a store. */
  'operator_event/store_suspended': OperatorEvent;
  /** A subscription takes a step of its life cycle, such as a billing or a cancellation. */
  'subscription_event/created': SubscriptionEvent;
  /** A day has ended in the time zone of the store; missed days are caught up. */
  'subscription_mrr_snapshot/created': SubscriptionMrrSnapshot;
};

/** An event with its body. `event` decides the type of `payload`. */
export type WebhookEvent = { [Event in keyof Payloads]: { event: Event; payload: Payloads[Event] } }[keyof Payloads];
